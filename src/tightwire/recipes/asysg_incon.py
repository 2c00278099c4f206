"""AsySG-incon: workers of one machine read one memory into a copy of their own, and step on it without locks.

    each worker: x̂ ← x (no lock: some numbers may be old, some new);  g = ∇f(x̂; B);  x ← x − γ·g (no lock)

Lian, Huang, Li, Liu: Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization. NIPS 2015, arXiv 1506.08272.
Their theory counts every number that is written as an iteration, x̂ as x without some of the last T of them. Unlike
hogwild, the forward and the backward pass of a batch see the same x̂.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.shared import shared_center
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.hogwild import hogwild
from tightwire.recipes.make import recipe
from tightwire.schedules.clock import asynchronous


def asysg_incon() -> Recipe:
    """Your optimizer on one memory, at gradients of each worker's own copy."""
    return recipe("asysg-incon", exchange=shared_center(), schedule=asynchronous())


entry = RecipeEntry(
    name="asysg-incon",
    make=asysg_incon,
    paper=Paper(
        "Lian, Huang, Li, Liu",
        "Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization",
        "NIPS 2015, arXiv 1506.08272",
    ),
    when="all workers are on one machine, the model is dense, and each batch should see one copy of the weights",
    start=Start(lr=0.1, momentum=0.0),
    laws=(
        Equals("one worker is plain SGD", Case(asysg_incon(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals("one worker cannot tell it from hogwild", Case(asysg_incon(), 1), Case(hogwild(), 1)),
    ),
)
