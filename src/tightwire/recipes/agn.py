"""Accumulated gradient normalisation: what a worker moved in tau steps, divided by tau, is added to the centre.

    worker: th ← pull;  tau steps;  commit (1/tau)·Σ −η·g;  th ← pull          server: c ← c + commit

Hermans, Spanakis, Möckel: Accumulated Gradient Normalization. ACML 2017, arXiv 1710.02368 (called ADAG in dist-keras).
However long a worker explores, its commit is about as long as one step, so the server stays stable with many workers.
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.server import server
from tightwire.recipes.downpour import downpour
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.add import add
from tightwire.rules.adopt import rebase
from tightwire.rules.signals import progress
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous


def agn(tau: int = 5) -> Recipe:
    """``tau`` local steps, committed as their mean."""
    return recipe(
        "agn", local=yours(), send=progress(), exchange=server(), schedule=asynchronous(push=tau, fetch=tau),
        center=add(1 / tau, over="sum"), adopt=rebase(), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="agn",
    make=agn,
    paper=Paper("Hermans, Spanakis, Möckel", "Accumulated Gradient Normalization", "ACML 2017, arXiv 1710.02368"),
    when="local steps with a server and many workers, where sums of steps would diverge",
    start=Start(lr=0.1, momentum=0.9),
    laws=(
        Equals("tau 1 is Downpour at a fixed rate", Case(agn(1), 3), Case(downpour(server_rule="fixed"), 3)),
        Equals("one worker with tau 1 is plain SGD", Case(agn(1), 1, momentum=0.9), Case(momentum=0.9), within=1e-6),
    ),
)
