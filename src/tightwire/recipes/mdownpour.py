"""Momentum Downpour: gradients of all workers go through one Nesterov velocity, which the server keeps.

    worker: pull y;  push g(y)          server, on every push: v ← δ·v − η·g;   y ← y − η·g + δ·v

Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD. NIPS 2015, arXiv 1412.6651 (as a rival of EASGD).
Workers have no velocity. What the server publishes, y, is the look-ahead point at which gradients are wanted.
"""

from __future__ import annotations

from tightwire.algebra.codec import Codec
from tightwire.algebra.grain import whole
from tightwire.algebra.memory import Memory
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.dense import dense
from tightwire.exchanges.server import server
from tightwire.memories.nothing import nothing
from tightwire.recipes.asgd import asgd
from tightwire.recipes.easgd import PAPER
from tightwire.recipes.entry import Case, Equals, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.momentum import with_nesterov
from tightwire.schedules.clock import asynchronous


def mdownpour(momentum: float = 0.9, *, codec: Codec = dense(), memory: Memory = nothing()) -> Recipe:  # noqa: B008
    """Asynchronous SGD with Nesterov ``momentum`` on the server."""
    return recipe(
        "mdownpour", memory=memory, codec=codec, exchange=server(), schedule=asynchronous(),
        center=with_nesterov(momentum), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="mdownpour",
    make=mdownpour,
    paper=PAPER,
    when="asynchronous SGD with few workers, where momentum of one's own still helps",
    start=Start(lr=0.01, momentum=0.0),
    laws=(
        Equals("one worker without momentum is plain SGD", Case(mdownpour(0.0), 1), Case()),
        Equals("without momentum it is asynchronous SGD", Case(mdownpour(0.0), 3), Case(asgd(), 3)),
    ),
)
