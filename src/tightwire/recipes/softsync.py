"""n-softsync: the server steps as soon as it has ⌊λ/n⌋ gradients, whoever they are from; nobody waits.

    learner: pull w, at version j;  push g(w), j
    server, when c = ⌊λ/n⌋ gradients are there: θ ← OptimizerStep(θ, (1/c)·Σ g) at rate α/n;  version + 1

Gupta, Zhang, Wang: Model Accuracy and Runtime Tradeoff in Distributed Deep Learning: A Systematic Study (Rudra).
ICDM 2016, arXiv 1509.04210. The mean staleness is about n, so the rate is divided by n.
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
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.yours import yours
from tightwire.schedules.quorum import softsync as schedule


def softsync(n: int = 2, *, codec: Codec = dense(), memory: Memory = nothing()) -> Recipe:  # noqa: B008
    """``n`` updates while every learner pushes once: 1 is nearly hardsync, the number of learners is asynchronous."""
    return recipe(
        "softsync", memory=memory, codec=codec, exchange=server(), schedule=schedule(n), center=yours(1 / n),
        grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="softsync",
    make=softsync,
    paper=Paper(
        "Gupta, Zhang, Wang",
        "Model Accuracy and Runtime Tradeoff in Distributed Deep Learning: A Systematic Study",
        "ICDM 2016, arXiv 1509.04210",
    ),
    when="nobody should wait, and staleness should be chosen instead of suffered",
    start=Start(lr=0.1, momentum=0.8),
    laws=(
        Equals("one learner, n = 1, is plain SGD", Case(softsync(1), 1, momentum=0.9), Case(momentum=0.9)),
        Equals("the rate is divided by n", Case(softsync(2), 1, momentum=0.9), Case(momentum=0.9, rate=0.5)),
        Equals(
            "n = λ is asynchronous SGD at 1/λ of the rate",
            Case(softsync(3), 3),
            Case(asgd(), 3, rate=1 / 3),
            within=1e-6,
        ),
    ),
)
