"""DiLoCo: many local steps of your optimizer, then Nesterov momentum on the mean progress.

    each worker: H steps;   Δ = (1/P)·Σ_k (c − w_k);   B ← μ·B + Δ;   c ← c − η·(Δ + μ·B);   w_k ← c

Douillard, Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam, Shen: DiLoCo. arXiv 2311.08105, 2023
(H = 500, η = 0.7, μ = 0.9, AdamW inside). Inner optimizer state stays with its worker. Δ is old − new.
"""

from __future__ import annotations

from tightwire.algebra.codec import Codec
from tightwire.algebra.exchange import Exchange
from tightwire.algebra.memory import Memory
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.dense import dense
from tightwire.exchanges.allreduce import allreduce
from tightwire.memories.nothing import nothing
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.make import recipe
from tightwire.rules.outer import outer
from tightwire.rules.signals import progress
from tightwire.rules.yours import yours
from tightwire.schedules.clock import every


def diloco(
    tau: int = 20,
    *,
    outer_lr: float = 0.7,
    outer_momentum: float = 0.9,
    codec: Codec = dense(),  # noqa: B008
    memory: Memory = nothing(),  # noqa: B008
    exchange: Exchange = allreduce(),  # noqa: B008
) -> Recipe:
    """``tau`` local steps, then one outer Nesterov step. The paper's tau is 500, for runs of 64,000 steps."""
    return recipe(
        "diloco", local=yours(), send=progress(), memory=memory, codec=codec, exchange=exchange, schedule=every(tau),
        center=outer(outer_lr, momentum=outer_momentum),
    )  # fmt: skip


entry = RecipeEntry(
    name="diloco",
    make=diloco,
    paper=Paper(
        "Douillard, Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam, Shen",
        "DiLoCo: Distributed Low-Communication Training of Language Models",
        "arXiv 2311.08105, 2023",
    ),
    start=Start(lr=0.03),
    when="the wire is hundreds of times too slow and the run is long: tau times fewer bytes, and outer momentum helps",
    laws=(
        Equals(
            "outer rate 1 without outer momentum is local SGD",
            Case(diloco(4, outer_lr=1.0, outer_momentum=0.0), 3, momentum=0.9),
            Case(local_sgd(4), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals(
            "one worker, outer rate 1 without momentum, is plain SGD",
            Case(diloco(4, outer_lr=1.0, outer_momentum=0.0), 1, momentum=0.9),
            Case(momentum=0.9),
            within=1e-6,
        ),
    ),
)
