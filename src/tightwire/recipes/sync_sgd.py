"""Synchronous data-parallel SGD: all workers apply the identical mean gradient.

    g_k = ∇f(w; B_k);   G = (1/P)·Σ_k g_k;   w ← OptimizerStep(w, G)

Four all-reduces, one result: what each costs is in `exchanges.allreduce`.
"""

from __future__ import annotations

from tightwire.algebra.grain import Grain, bucket
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.allreduce import AllReduce, allreduce, halving_doubling, multi_ring, ring, tree
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe


def sync_sgd(exchange: AllReduce = allreduce(), *, grain: Grain = bucket()) -> Recipe:  # noqa: B008
    """Every step, everybody's mean gradient.

    >>> sync_sgd(ring()).exchange.graph
    'ring'
    """
    return recipe("sync-sgd", exchange=exchange, grain=grain)


entry = RecipeEntry(
    name="sync-sgd",
    make=sync_sgd,
    paper=Paper(
        "Goyal, Dollár, Girshick, Noordhuis, Wesolowski, Kyrola, Tulloch, Jia, He",
        "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
        "arXiv 1706.02677, 2017",
    ),
    when="the wire is fast enough: nothing else is as simple or as exact",
    laws=(
        Equals("one worker is plain SGD", Case(sync_sgd(), 1, momentum=0.9), Case(momentum=0.9)),
        *(
            Equals(
                f"{workers} workers ({graph.graph}) with batch b are one worker with batch {workers}·b",
                Case(sync_sgd(graph), workers, momentum=0.9),
                Case(momentum=0.9),
                within=1e-5,
            )
            for workers, graph in ((2, ring()), (3, tree()), (4, halving_doubling()), (4, multi_ring()), (3, ring()))
        ),
    ),
)
