"""Local SGD: run tau steps alone, then average.

    each worker:  w_k ← tau steps of your optimizer;   w = (1/P)·Σ_k w_k;   w_k ← w

Moritz, Nishihara, Stoica, Jordan: SparkNet. ICLR 2016, arXiv 1511.06051 (tau = 50 on ImageNet, 10 on CIFAR-10).
Only weights travel: momentum stays with its worker. ``send="progress"`` sends what changed instead of the weights,
which is the same average and may be compressed.
"""

from __future__ import annotations

from typing import Literal

from tightwire.algebra.codec import Codec
from tightwire.algebra.exchange import Exchange
from tightwire.algebra.memory import Memory
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.dense import dense
from tightwire.exchanges.allreduce import allreduce, ring
from tightwire.memories.nothing import nothing
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.rules.add import add
from tightwire.rules.average import average
from tightwire.rules.signals import progress, weights
from tightwire.rules.yours import yours
from tightwire.schedules.clock import every


def local_sgd(
    tau: int = 10,
    *,
    send: Literal["weights", "progress"] = "weights",
    codec: Codec = dense(),  # noqa: B008
    memory: Memory = nothing(),  # noqa: B008
    exchange: Exchange = allreduce(),  # noqa: B008
) -> Recipe:
    """Average the workers every ``tau`` steps.

    >>> local_sgd(5).schedule.due(4).push
    True
    """
    signal, rule = (weights(), average()) if send == "weights" else (progress(), add())
    return recipe(
        "local-sgd", local=yours(), send=signal, memory=memory, codec=codec, exchange=exchange, schedule=every(tau),
        center=rule,
    )  # fmt: skip


entry = RecipeEntry(
    name="local-sgd",
    make=local_sgd,
    paper=Paper(
        "Moritz, Nishihara, Stoica, Jordan", "SparkNet: Training Deep Networks in Spark", "ICLR 2016, arXiv 1511.06051"
    ),
    when="the wire is slow and workers see similar data: tau times fewer bytes, no codec",
    laws=(
        Equals("one worker is plain SGD for any tau", Case(local_sgd(7), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "tau 1 without momentum is synchronous SGD",
            Case(local_sgd(1, exchange=ring()), 3),
            Case(sync_sgd(ring()), 3),
            within=1e-5,
        ),
        Equals(
            "averaging progress is averaging weights",
            Case(local_sgd(4, send="progress"), 3, momentum=0.9),
            Case(local_sgd(4), 3, momentum=0.9),
            within=1e-5,
        ),
    ),
)
