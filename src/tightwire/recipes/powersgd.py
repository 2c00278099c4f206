"""PowerSGD: low-rank factors of every gradient matrix, summed by all-reduce.

    P = Σ_k M_k·Q;   P̂ = orthonormalise(P);   Q = Σ_k M_kᵀ·P̂;   M̂ = P̂·Qᵀ;   e_k ← M_k − M̂/P

Vogels, Karimireddy, Jaggi: PowerSGD. NeurIPS 2019, arXiv 1905.13727.
Linear, so its bytes do not grow with the number of workers: 4r(n+m) a matrix. The error is taken against what all
workers received, and your optimizer's momentum acts after decompression.
"""

from __future__ import annotations

from tightwire.algebra.check import check
from tightwire.algebra.exchange import Exchange
from tightwire.algebra.recipe import AnyRecipe, forever, phases
from tightwire.codecs.lowrank import lowrank
from tightwire.exchanges.allreduce import allreduce
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def powersgd(
    rank: int = 4,
    *,
    min_shrink: float = 2.0,
    warmup: int = 0,
    exchange: Exchange = allreduce(),  # noqa: B008
) -> AnyRecipe:
    """Rank-``rank`` gradients, after ``warmup`` uncompressed steps."""
    low = recipe("powersgd", memory=residual("received"), codec=lowrank(rank, min_shrink=min_shrink), exchange=exchange)
    return low if warmup == 0 else check(phases((warmup, sync_sgd()), (forever, low), name="powersgd"))


entry = RecipeEntry(
    name="powersgd",
    make=powersgd,
    paper=Paper(
        "Vogels, Karimireddy, Jaggi",
        "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization",
        "NeurIPS 2019, arXiv 1905.13727",
    ),
    when="many workers: the only strong codec here whose bytes do not grow with their number",
    start=Start(lr=0.5, momentum=0.0, rise=0.05),  # momentum would repeat what arrives late
    laws=(
        Equals(
            "full rank is synchronous SGD",
            Case(powersgd(1000, min_shrink=0.0), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-4,
        ),
        Equals(
            "a warm-up that never ends is synchronous SGD",
            Case(powersgd(warmup=10_000), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
        ),
    ),
)
