"""ADAG of the thesis: a commit counts the less, the farther the centre has moved since its worker read it.

    worker: th ← pull;  tau steps;  commit d = Σ −η·g;  th ← pull
    server: c ← c + d / (1 + ‖c − c_pulled‖²/η)

Hermans: On Scalable Deep Learning and Parallelizing Gradient Descent. Maastricht University, 2017.
Staleness is measured in distance, not in updates. The server keeps the centre that each worker read: P more copies.
Not to be confused with the class ADAG of dist-keras, which is accumulated gradient normalisation (`agn`).
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.server import server
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.adopt import rebase
from tightwire.rules.signals import progress
from tightwire.rules.stale import by_distance
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous


def adag(tau: int = 5) -> Recipe:
    """``tau`` local steps, committed by distance."""
    return recipe(
        "adag", local=yours(), send=progress(), exchange=server(), schedule=asynchronous(push=tau, fetch=tau),
        center=by_distance(), adopt=rebase(), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="adag",
    make=adag,
    paper=Paper(
        "Hermans", "On Scalable Deep Learning and Parallelizing Gradient Descent", "Maastricht University, 2017"
    ),
    when="as dynsgd, where a centre that has hardly moved should not count as stale",
    start=Start(lr=0.3, momentum=0.0),
    laws=(Equals("one worker is plain SGD", Case(adag(), 1, momentum=0.9), Case(momentum=0.9), within=1e-6),),
)
