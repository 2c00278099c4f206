"""Gossiping SGD, push: in every tau-th step each worker gives its weights to one random other.

    y = mean of x_i and everything received;    x_i ← y + local step with the gradient at x_i

Jin, Yuan, Iandola, Keutzer: How to scale distributed deep learning? arXiv 1611.04581, 2016.
Some workers get several, some none. One message a worker, whatever their number. The answer is the mean.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.recipes.entry import Case, Equals, RecipeEntry
from tightwire.recipes.gossip_pull import PAPER, gossip, gossip_pull


def gossip_push(tau: int = 1) -> Recipe:
    """Give one's weights to a random other in every ``tau``-th step."""
    return gossip("push", tau)


entry = RecipeEntry(
    name="gossip-push",
    make=gossip_push,
    paper=PAPER,
    when="as gossip-pull, where workers can send without being asked",
    laws=(
        Equals("one worker is plain SGD", Case(gossip_push(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals("between two workers pushing is pulling", Case(gossip_push(), 2), Case(gossip_pull(), 2)),
    ),
)
