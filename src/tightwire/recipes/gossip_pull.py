"""Gossiping SGD, pull: in every tau-th step each worker takes the weights of one random other and goes half-way.

    y = (x_i + x_j)/2 for a random j ≠ i;    x_i ← y + local step with the gradient at x_i

Jin, Yuan, Iandola, Keutzer: How to scale distributed deep learning? arXiv 1611.04581, 2016.
One message a worker, whatever their number; no server, no barrier of all. The mean of the workers is kept only in
expectation. The answer is the mean.
"""

from __future__ import annotations

from typing import Literal

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.neighbors import neighbors
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.make import recipe
from tightwire.rules.average import average
from tightwire.rules.signals import weights
from tightwire.rules.yours import yours
from tightwire.schedules.clock import every

PAPER = Paper("Jin, Yuan, Iandola, Keutzer", "How to scale distributed deep learning?", "arXiv 1611.04581, 2016")


def gossip(way: Literal["pull", "push"], tau: int) -> Recipe:
    """Gossip one way or the other."""
    return recipe(
        f"gossip-{way}", local=yours(), send=weights(), exchange=neighbors(way), schedule=every(tau, "before_local"),
        center=average(),
    )  # fmt: skip


def gossip_pull(tau: int = 1) -> Recipe:
    """Take the weights of a random other in every ``tau``-th step."""
    return gossip("pull", tau)


entry = RecipeEntry(
    name="gossip-pull",
    make=gossip_pull,
    paper=PAPER,
    when="too many workers for all of them to add up together",
    laws=(
        Equals("one worker is plain SGD", Case(gossip_pull(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "two workers that pull from each other average",
            Case(gossip_pull(3), 2, momentum=0.9),
            Case(local_sgd(3).but(schedule=every(3, "before_local")), 2, momentum=0.9),
            within=1e-5,
        ),
    ),
)
