"""AsySG-con: the server adds up any B gradients for each update, none of them more than T updates old.

    worker: pull x, a consistent copy, version v;  push g(x), v
    server, when any B gradients are there: x ← x − γ·Σ_{m=1..B} g(x_{k−t_m});   t_m ≤ T, else dropped

Lian, Huang, Li, Liu: Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization. NIPS 2015, arXiv 1506.08272.
It is a sum, not a mean: B times the step of an average at the same rate.
"""

from __future__ import annotations

from tightwire.algebra.codec import Codec
from tightwire.algebra.grain import whole
from tightwire.algebra.memory import Memory
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.dense import dense
from tightwire.exchanges.server import server
from tightwire.memories.nothing import nothing
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.rules.stale import in_sum
from tightwire.schedules.clock import every_step
from tightwire.schedules.quorum import collect


def asysg_con(
    together: int = 2,
    *,
    bound: int = 16,
    codec: Codec = dense(),  # noqa: B008
    memory: Memory = nothing(),  # noqa: B008
) -> Recipe:
    """Any ``together`` gradients an update, none more than ``bound`` updates old."""
    return recipe(
        "asysg-con", memory=memory, codec=codec, exchange=server(), schedule=collect(together, bound=bound),
        center=in_sum(), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="asysg-con",
    make=asysg_con,
    paper=Paper(
        "Lian, Huang, Li, Liu",
        "Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization",
        "NIPS 2015, arXiv 1506.08272",
    ),
    when="asynchronous SGD should keep its theory: a bound on staleness, and fewer, larger updates",
    start=Start(lr=0.05, momentum=0.5),
    laws=(
        Equals(
            "one worker, one gradient an update, is plain SGD", Case(asysg_con(1), 1, momentum=0.9), Case(momentum=0.9)
        ),
        Equals(
            "held together it is synchronous SGD at P times the rate",
            Case(asysg_con(3).but(schedule=every_step()), 3),
            Case(sync_sgd(), 3, rate=3.0),
            within=1e-5,
        ),
    ),
)
