"""Synchronous elastic averaging for clusters: springs to a centre, added up by a tree, packed, and overlapped.

    x_i ← x_i − η·g_i(x_i) − α·(x_i − c);    c ← c + α·Σ_i (x_i − c)          all at time t, α = β/P

You, Buluç, Demmel: Scaling Deep Learning on GPU and Knights Landing clusters. SC 2017, arXiv 1708.02983 (Sync EASGD 1
to 3); Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD. NIPS 2015, arXiv 1412.6651.
The displacement c − x_i is known before the forward pass, so its exchange runs beside forward and backward (EASGD 3);
all layers travel in one message, added up along a tree (EASGD 1). The answer is the centre.
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.allreduce import AllReduce, ring, tree
from tightwire.recipes.async_easgd import PAPER
from tightwire.recipes.entry import Case, Equals, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.rules.add import add
from tightwire.rules.adopt import elastic
from tightwire.rules.signals import displacement
from tightwire.rules.yours import yours
from tightwire.schedules.clock import every


def sync_easgd(beta: float = 0.9, *, tau: int = 1, exchange: AllReduce = tree()) -> Recipe:  # noqa: B008
    """Springs of strength ``beta``/P between every worker and the centre, every ``tau`` steps."""
    return recipe(
        "sync-easgd", local=yours(), send=displacement(), exchange=exchange, schedule=every(tau, "before_local"),
        center=add(beta), adopt=elastic(beta), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="sync-easgd",
    make=sync_easgd,
    paper=PAPER,
    when="workers should explore apart, and a deterministic, overlapped exchange is wanted",
    laws=(
        Equals(
            "a tree and a ring pull alike",
            Case(sync_easgd(), 3, momentum=0.9),
            Case(sync_easgd(exchange=ring()), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals("without springs the centre stays where it was", Case(sync_easgd(0.0), 3), Case(steps=0)),
    ),
)
