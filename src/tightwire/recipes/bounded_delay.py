"""Bounded delay: the gradients of one iteration are one update, and nobody starts more than d iterations ahead of it.

    worker, iteration t: wait until update t − 1 − d is in;  pull w;  push g(w)
    server: when all gradients of iteration t are there:  c ← OptimizerStep(c, mean)

Li, Andersen, Park, Smola, Ahmed, Josifovski, Long, Shekita, Su: Scaling Distributed Machine Learning with the Parameter
Server. OSDI 2014. d = 0 is sequential consistency; no gradient is applied more than d updates late.
"""

from __future__ import annotations

from tightwire.algebra.codec import Codec
from tightwire.algebra.grain import whole
from tightwire.algebra.memory import Memory
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.dense import dense
from tightwire.exchanges.server import server
from tightwire.memories.nothing import nothing
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.schedules.bounded import bounded_delay as schedule


def bounded_delay(delay: int = 2, *, codec: Codec = dense(), memory: Memory = nothing()) -> Recipe:  # noqa: B008
    """Workers at most ``delay`` iterations ahead of the last complete one."""
    return recipe(
        "bounded-delay", memory=memory, codec=codec, exchange=server(), schedule=schedule(delay), grain=whole()
    )


entry = RecipeEntry(
    name="bounded-delay",
    make=bounded_delay,
    paper=Paper(
        "Li, Andersen, Park, Smola, Ahmed, Josifovski, Long, Shekita, Su",
        "Scaling Distributed Machine Learning with the Parameter Server",
        "OSDI 2014",
    ),
    when="every gradient must count once and alike, and workers may hide the wire behind a few iterations",
    laws=(
        Equals("one worker is plain SGD", Case(bounded_delay(0), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "delay 0 is synchronous SGD",
            Case(bounded_delay(0), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
    ),
)
