"""LARS: very large batches, every layer with a rate of its own.

    λ_l = trust·‖w_l‖ / (‖g_l‖ + β·‖w_l‖);   v ← m·v + λ_l·(g_l + β·w_l);   w_l ← w_l − γ·v

You, Gitman, Ginsburg: Large Batch Training of Convolutional Networks. arXiv 1708.03888, 2017.
Your optimizer keeps m, β and γ; γ is of order 2 to 40 here, not 0.1, because λ makes steps small parts of the weights.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.allreduce import AllReduce, allreduce
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules import lars as rule


def lars(trust: float = 0.001, *, exchange: AllReduce = allreduce()) -> Recipe:  # noqa: B008
    """Synchronous SGD with layer-wise adaptive rates."""
    return recipe("lars", exchange=exchange, center=rule.lars(trust))


entry = RecipeEntry(
    name="lars",
    make=lars,
    paper=Paper("You, Gitman, Ginsburg", "Large Batch Training of Convolutional Networks", "arXiv 1708.03888, 2017"),
    when="batches so large that one rate for all layers diverges",
    laws=(
        Equals(
            "a loss a thousand times as large moves matrices alike",
            Case(lars(), 2, problem="narrow", momentum=0.9, rate=40.0),
            Case(lars(), 2, problem="narrow", momentum=0.9, rate=40.0, loss=1000.0),
            within=1e-4,
        ),
        Equals(
            "any number of workers is one with the batch of all",
            Case(lars(), 3, momentum=0.9, rate=40.0),
            Case(lars(), 1, momentum=0.9, rate=40.0),
            within=1e-4,
        ),
    ),
    start=Start(lr=5.0),
)
