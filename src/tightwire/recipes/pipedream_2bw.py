"""PipeDream-2BW: gradients of m ≥ n microbatches add up, two versions of the weights, one delay for all stages.

    W(t+1) = W(t) − ν·∇f(W(t−1))

Nothing waits for a flush (`splits.pipedream_2bw`). Narayanan, Phanishayee, Shi, Chen, Zaharia: Memory-Efficient
Pipeline-Parallel DNN Training. ICML 2021, arXiv 2006.09503.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import split_model
from tightwire.splits import pipedream_2bw as splits


def pipedream_2bw(stages: int = 2, *, microbatches: int = 4, cuts: tuple[int, ...] | None = None) -> Recipe:
    """One stage of adjacent layers on each worker; the update of batch t uses the weights before the last update."""
    return split_model("pipedream-2bw", splits.pipedream_2bw(stages, microbatches=microbatches, cuts=cuts))


entry = RecipeEntry(
    name="pipedream-2bw",
    make=pipedream_2bw,
    paper=Paper(
        "Narayanan, Phanishayee, Shi, Chen, Zaharia",
        "Memory-Efficient Pipeline-Parallel DNN Training",
        "ICML 2021, arXiv 2006.09503",
    ),
    when="as pipedream, with memory for two versions only and batches that can be cut",
    laws=(
        Equals("one stage and one microbatch is plain SGD", Case(pipedream_2bw(1, microbatches=1), 1, momentum=0.9),
               Case(momentum=0.9)),
    ),
    workers=2,
)  # fmt: skip
