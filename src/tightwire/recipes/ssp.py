"""Stale synchronous parallel: workers add their steps to a table, and may read it up to s clocks late.

    worker at clock p: read a copy that holds everybody's steps before p − s, and all of its own;  w ← w − η·g
                       inc(old − new);  clock()                        server: c ← c − Σ inc, at once

Ho, Cipar, Cui, Lee, Kim, Gibbons, Gibson, Ganger, Xing: More Effective Distributed ML via a Stale Synchronous Parallel
Parameter Server. NIPS 2013. The fast wait in their read, never in their clock; a copy that is recent enough is used
again without asking. Steps of all workers are added up, not averaged: the learning rate is P times what it says.
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.server import server
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.add import add
from tightwire.rules.adopt import rebase
from tightwire.rules.signals import progress
from tightwire.rules.yours import yours
from tightwire.schedules.bounded import ssp as schedule
from tightwire.schedules.clock import every_step


def ssp(staleness: int = 3) -> Recipe:
    """Workers at most ``staleness`` clocks apart; 0 holds them together."""
    return recipe(
        "ssp", local=yours(), send=progress(), exchange=server(), schedule=schedule(staleness),
        center=add(over="sum"), adopt=rebase(), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="ssp",
    make=ssp,
    paper=Paper(
        "Ho, Cipar, Cui, Lee, Kim, Gibbons, Gibson, Ganger, Xing",
        "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server",
        "NIPS 2013",
    ),
    when="workers stumble now and then, but none is slow for ever, and staleness must have a bound",
    start=Start(lr=0.1, momentum=0.0),
    laws=(
        Equals("one worker is plain SGD", Case(ssp(), 1, momentum=0.9), Case(momentum=0.9), within=1e-6),
        Equals(
            "staleness 0 is lockstep",
            Case(ssp(0), 3, momentum=0.9),
            Case(ssp().but(schedule=every_step()), 3, momentum=0.9),
            within=1e-5,
        ),
    ),
)
