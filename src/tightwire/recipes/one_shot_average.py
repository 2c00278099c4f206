"""One-shot averaging: train apart, average once, at the end.

    each worker: SGD on its shard;   w = (1/P)·Σ_k w_k, once

Zinkevich, Weimer, Li, Smola: Parallelized Stochastic Gradient Descent. NIPS 2010.
Proved for convex problems. Deep networks that saw different classes do not average: there it fails, by its nature.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.make import recipe
from tightwire.rules.average import average
from tightwire.rules.signals import weights
from tightwire.rules.yours import yours
from tightwire.schedules.clock import at_end


def one_shot_average() -> Recipe:
    """Average the workers once, when training is over."""
    return recipe("one-shot-average", local=yours(), send=weights(), schedule=at_end(), center=average())


entry = RecipeEntry(
    name="one-shot-average",
    make=one_shot_average,
    paper=Paper("Zinkevich, Weimer, Li, Smola", "Parallelized Stochastic Gradient Descent", "NIPS 2010"),
    when="there is no wire while training, and the problem is convex or nearly so",
    laws=(
        Equals("one worker is plain SGD", Case(one_shot_average(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "it is local SGD whose period never ends",
            Case(one_shot_average(), 3, momentum=0.9),
            Case(local_sgd(10_000), 3, momentum=0.9),
        ),
    ),
    fails_on_sorted=True,
)
