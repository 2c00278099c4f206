"""Omnivore: g groups of workers, synchronous inside, asynchronous between, and momentum tuned to g.

    inside a group: the mean gradient;   between: the group pushes it, w ← OptimizerStep(w, mean), the group takes w
    explicit momentum = max(0, total − (1 − 1/g))            asynchrony of g groups acts as momentum 1 − 1/g

Hadjis, Zhang, Mitliagkas, Iter, Ré: Omnivore: An Optimizer for Multi-device Deep Learning on CPUs and GPUs. arXiv
1606.04487, 2016; Mitliagkas, Zhang, Hadjis, Ré: Asynchrony begets Momentum. arXiv 1605.09774, 2016.
``cold`` steps with all workers in one group come first.
"""

from __future__ import annotations

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import AnyRecipe, forever, phases, tiers
from tightwire.algebra.world import in_groups
from tightwire.exchanges.server import server
from tightwire.recipes.asgd import asgd
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.rules.momentum import with_momentum
from tightwire.schedules.clock import asynchronous


def omnivore(groups: int = 2, *, momentum: float = 0.9, cold: int = 0) -> AnyRecipe:
    """``groups`` compute groups whose explicit and implicit momentum add up to ``momentum``."""
    if groups < 1 or cold < 0:
        raise RecipeError(f"omnivore: groups={groups} is at least 1, cold={cold} at least 0")
    explicit = max(0.0, momentum - (1 - 1 / groups))
    between = recipe(
        "omnivore", exchange=server(), schedule=asynchronous(), center=with_momentum(explicit), grain=whole()
    )
    grouped = tiers(sync_sgd(), between, by=in_groups(groups), name="omnivore")
    if cold == 0:
        return grouped
    return phases((cold, sync_sgd().but(center=with_momentum(momentum))), (forever, grouped), name="omnivore")


entry = RecipeEntry(
    name="omnivore",
    make=omnivore,
    paper=Paper(
        "Hadjis, Zhang, Mitliagkas, Iter, Ré",
        "Omnivore: An Optimizer for Multi-device Deep Learning on CPUs and GPUs",
        "arXiv 1606.04487, 2016",
    ),
    when="some machines are near each other and alike: lockstep there, no waiting between the groups",
    start=Start(lr=0.2, momentum=0.0),
    laws=(
        Equals("one group is synchronous SGD", Case(omnivore(1), 3), Case(sync_sgd(), 3, momentum=0.9), within=1e-5),
        Equals(
            "a group for each worker is asynchronous SGD",
            Case(omnivore(3, momentum=0.0), 3),
            Case(asgd(), 3),
            within=1e-6,
        ),
        Equals(
            "one group that starts cold is synchronous SGD until its momentum starts anew",
            Case(omnivore(1, momentum=0.0, cold=5), 3),
            Case(sync_sgd(), 3),
            within=1e-5,
        ),
    ),
)
