"""DynSGD: what a worker moved in tau steps is added to the centre, divided by how stale it is.

    worker: th ← pull;  tau steps;  commit a = Σ −η·g;  th ← pull
    server: t = updates since this worker's pull;   c ← c + a/(t + 1)

Hermans: On Scalable Deep Learning and Parallelizing Gradient Descent. Maastricht University, 2017.
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.server import server
from tightwire.recipes.downpour import downpour
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.adopt import rebase
from tightwire.rules.signals import progress
from tightwire.rules.stale import discounted
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous


def dynsgd(tau: int = 5) -> Recipe:
    """``tau`` local steps, committed by age."""
    return recipe(
        "dynsgd", local=yours(), send=progress(), exchange=server(), schedule=asynchronous(push=tau, fetch=tau),
        center=discounted(), adopt=rebase(), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="dynsgd",
    make=dynsgd,
    paper=Paper(
        "Hermans", "On Scalable Deep Learning and Parallelizing Gradient Descent", "Maastricht University, 2017"
    ),
    when="local steps with a server, and workers so different in speed that the late ones do harm",
    start=Start(lr=0.05, momentum=0.9),
    laws=(
        Equals("one worker is plain SGD", Case(dynsgd(), 1, momentum=0.9), Case(momentum=0.9), within=1e-6),
        Equals(
            "where nothing is stale it is Downpour at a fixed rate",
            Case(dynsgd(4), 1, momentum=0.9),
            Case(downpour(4, 4, server_rule="fixed"), 1, momentum=0.9),
        ),
    ),
)
