"""Hardsync: the server waits for every learner's gradient, steps on their mean, and gives everybody the result.

    learner: pull w;  push g(w)             server, when all λ are there: c ← OptimizerStep(c, (1/λ)·Σ g)

Gupta, Zhang, Wang: Model Accuracy and Runtime Tradeoff in Distributed Deep Learning: A Systematic Study (Rudra).
ICDM 2016, arXiv 1509.04210. The yardstick of the n-softsync family, and synchronous SGD by way of a server.
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
from tightwire.schedules.clock import every_step


def hardsync(*, codec: Codec = dense(), memory: Memory = nothing()) -> Recipe:  # noqa: B008
    """Everybody's gradient, then one step."""
    return recipe(
        "hardsync", memory=memory, codec=codec, exchange=server(), schedule=every_step(), grain=whole()
    )  # fmt: skip


entry = RecipeEntry(
    name="hardsync",
    make=hardsync,
    paper=Paper(
        "Gupta, Zhang, Wang",
        "Model Accuracy and Runtime Tradeoff in Distributed Deep Learning: A Systematic Study",
        "ICDM 2016, arXiv 1509.04210",
    ),
    when="a server is there anyway and no staleness at all is wanted",
    laws=(
        Equals("one learner is plain SGD", Case(hardsync(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "it is synchronous SGD",
            Case(hardsync(), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
    ),
)
