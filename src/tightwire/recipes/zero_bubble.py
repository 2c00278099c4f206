"""Zero-bubble pipelining: the backward pass in two, the error at once and the gradient where a stage would wait.

    w(t+1) = w(t) − ν·Σ_i (1/m)·∇f_i(w(t))

Run by `torch.distributed.pipelining` between processes (`splits.interleaved`). Qi, Wan, Huang, Lin: Zero Bubble
Pipeline Parallelism. ICLR 2024, arXiv 2401.10241.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.algebra.split import Cut
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import split_model
from tightwire.splits.interleaved import Interleaved


def zero_bubble(
    workers: int = 2, *, chunks: int = 1, microbatches: int = 4, cuts: tuple[int, ...] | None = None
) -> Recipe:
    """Each worker has ``chunks`` stages; an update after all microbatches of a batch."""
    return split_model("zero-bubble", Interleaved(workers, chunks, microbatches, "zero-bubble", Cut(cuts)))


entry = RecipeEntry(
    name="zero-bubble",
    make=zero_bubble,
    paper=Paper(
        "Qi, Wan, Huang, Lin",
        "Zero Bubble Pipeline Parallelism",
        "ICLR 2024, arXiv 2401.10241",
    ),
    when="exact gradients, little waiting, one more copy of some activations",
    laws=(
        Equals("two workers are plain SGD", Case(zero_bubble(2, chunks=1), 2, momentum=0.9), Case(momentum=0.9), 1e-6),
    ),
    workers=2,
)
