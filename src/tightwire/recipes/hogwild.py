"""Hogwild!: the workers of one machine train one copy of the weights at once, without locks.

    each worker: read w (no lock);  g = ∇f(w; B);  w_v ← w_v − γ·g_v for every coordinate v it touches

Recht, Ré, Wright, Niu: Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent. NIPS 2011, arXiv
1106.5730. Where updates are sparse they rarely collide; where they collide a step may be lost.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.shared import shared
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.average import average
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous


def hogwild() -> Recipe:
    """Your optimizer on every worker, one memory under all of them."""
    return recipe("hogwild", local=yours(), exchange=shared(), schedule=asynchronous(), center=average())


entry = RecipeEntry(
    name="hogwild",
    make=hogwild,
    paper=Paper(
        "Recht, Ré, Wright, Niu",
        "Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent",
        "NIPS 2011, arXiv 1106.5730",
    ),
    when="all workers are on one machine and each batch touches few of the weights",
    start=Start(lr=0.1, momentum=0.0),
    laws=(Equals("one worker is plain SGD", Case(hogwild(), 1, momentum=0.9), Case(momentum=0.9)),),
)
