"""Asynchronous elastic averaging: each worker trains by itself, tied to the centre by a spring that acts now and then.

    every tau steps: pull c;  e = α·(x − c);  x ← x − e;  push e, server: c ← c + e          α = β/P
    every step:      x ← x − η·g                                 g at the x of before the spring

Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD. NIPS 2015, arXiv 1412.6651 (β = 0.9).
Both ends move by the same e, so Σ x + c changes by gradients only. The answer is the centre.
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.server import server
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.adopt import elastic
from tightwire.rules.signals import displacement
from tightwire.rules.springs import spring
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous

PAPER = Paper("Zhang, Choromanska, LeCun", "Deep learning with Elastic Averaging SGD", "NIPS 2015, arXiv 1412.6651")


def easgd(beta: float = 0.9, *, tau: int = 10) -> Recipe:
    """Springs of strength ``beta``/P, every ``tau`` steps of each worker."""
    return recipe(
        "easgd", local=yours(), send=displacement(), exchange=server(), center=spring(beta), adopt=elastic(beta),
        schedule=asynchronous(push=tau, fetch=tau, order="before_local"), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="easgd",
    make=easgd,
    paper=PAPER,
    when="workers differ in speed, the wire is slow, and workers should explore apart",
    start=Start(lr=0.6, momentum=0.0),
    laws=(
        Equals("without springs the centre stays where it was", Case(easgd(0.0), 3), Case(steps=0)),
        Equals(
            "a worker that never meets the centre does not move it", Case(easgd(tau=1000), 1, steps=0), Case(steps=0)
        ),
    ),
)
