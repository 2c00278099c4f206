"""1F1B with a flush: as GPipe, but a microbatch comes back as soon as it can, so few are alive at once.

    w(t+1) = w(t) − ν·Σ_i (b_i/b)·∇f_i(w(t))

Stage s of n keeps at most n−s microbatches and waits as long as with GPipe (`splits.flush`). Fan et al.: DAPPLE: A
Pipelined Data Parallel Approach for Training Large Models. PPoPP 2021, arXiv 2007.01045.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.algebra.split import Cut
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import split_model
from tightwire.splits.flush import Flush


def one_forward_one_backward(
    stages: int = 2, *, microbatches: int = 4, cuts: tuple[int, ...] | None = None, replicas: int = 1
) -> Recipe:
    """One stage of adjacent layers on each worker; an update after all microbatches of a batch."""
    return split_model("1f1b", Flush(stages, microbatches, "1f1b", Cut(cuts, replicas=replicas)))


entry = RecipeEntry(
    name="1f1b",
    make=one_forward_one_backward,
    paper=Paper(
        "Fan, Rong, Meng, Cao, Wang, Zheng, Wu, Long, Yang, Xia, Diao, Liu, Lin",
        "DAPPLE: A Pipelined Data Parallel Approach for Training Large Models",
        "PPoPP 2021, arXiv 2007.01045",
    ),
    when="exact gradients from a model in stages, with little memory",
    laws=(
        Equals("two stages are plain SGD", Case(one_forward_one_backward(2, microbatches=4), 2, momentum=0.9),
               Case(momentum=0.9), 1e-6),
        Equals("one microbatch is plain SGD, bit for bit", Case(one_forward_one_backward(2, microbatches=1), 2),
               Case()),
    ),
    workers=2,
)  # fmt: skip
