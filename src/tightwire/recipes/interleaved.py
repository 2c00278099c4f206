"""Interleaved 1F1B: each worker has several stages, so that a batch is sooner at the last one and the pipe waits less.

    w(t+1) = w(t) − ν·Σ_i (1/m)·∇f_i(w(t));      waiting (n−1)/(v·m) of the ideal time, with v stages a worker

Run by `torch.distributed.pipelining` between processes (`splits.interleaved`). Narayanan et al.: Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM. SC 2021, arXiv 2104.04473.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.algebra.split import Cut
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import split_model
from tightwire.splits.interleaved import Interleaved


def interleaved(
    workers: int = 2, *, chunks: int = 1, microbatches: int = 4, cuts: tuple[int, ...] | None = None
) -> Recipe:
    """Each worker has ``chunks`` stages; an update after all microbatches of a batch."""
    return split_model("interleaved", Interleaved(workers, chunks, microbatches, "interleaved", Cut(cuts)))


entry = RecipeEntry(
    name="interleaved",
    make=interleaved,
    paper=Paper(
        "Narayanan, Shoeybi, Casper, LeGresley, Patwary, Korthikanti, Vainbrand, Kashinkunti, Bernauer, Catanzaro, "
        "Phanishayee, Zaharia",
        "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
        "SC 2021, arXiv 2104.04473",
    ),
    when="exact gradients, few microbatches, more layers than workers",
    laws=(
        Equals("two workers are plain SGD", Case(interleaved(2, chunks=1), 2, momentum=0.9), Case(momentum=0.9), 1e-6),
    ),
    workers=2,
)
