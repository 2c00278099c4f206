"""GPipe: a batch is cut into microbatches; all go forward, all come back, then every stage updates.

    w(t+1) = w(t) − ν·Σ_i (b_i/b)·∇f_i(w(t))

The gradient is that of one device; stages wait for (n−1)/(m+n−1) of the time (`splits.flush`). Huang, Cheng, Bapna,
Firat, Chen, Chen, Lee, Ngiam, Le, Wu, Chen: GPipe: Efficient Training of Giant Neural Networks using Pipeline
Parallelism. NeurIPS 2019, arXiv 1811.06965.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.algebra.split import Cut
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import split_model
from tightwire.splits.flush import Flush


def gpipe(stages: int = 2, *, microbatches: int = 4, cuts: tuple[int, ...] | None = None, replicas: int = 1) -> Recipe:
    """One stage of adjacent layers on each worker; an update after all microbatches of a batch."""
    return split_model("gpipe", Flush(stages, microbatches, "gpipe", Cut(cuts, replicas=replicas)))


entry = RecipeEntry(
    name="gpipe",
    make=gpipe,
    paper=Paper(
        "Huang, Cheng, Bapna, Firat, Chen, Chen, Lee, Ngiam, Le, Wu, Chen",
        "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
        "NeurIPS 2019, arXiv 1811.06965",
    ),
    when="exact gradients from a model in stages, memory for all microbatches",
    laws=(
        Equals("one stage and one microbatch is plain SGD", Case(gpipe(1, microbatches=1), 1, momentum=0.9),
               Case(momentum=0.9)),
        Equals("two stages are plain SGD", Case(gpipe(2, microbatches=3), 2, momentum=0.9), Case(momentum=0.9), 1e-6),
    ),
    workers=2,
)  # fmt: skip
