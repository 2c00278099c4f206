"""Staleness-aware SGD: n-softsync whose server divides each gradient's rate by that gradient's age.

    server, when c = ⌊λ/n⌋ gradients are there: θ ← θ − (1/c)·Σ_l α(t_l)·g_l;   α(t) = α₀/t, α(0) = α₀
    t_l: updates of θ since learner l read it

Zhang, Gupta, Lian, Liu: Staleness-aware Async-SGD for Distributed Deep Learning. IJCAI 2016, arXiv 1511.05950.
Ages 0 and 1 count in full; your optimizer steps on the weighed mean.
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
from tightwire.rules.stale import staleness_aware as by_age
from tightwire.schedules.quorum import softsync as schedule


def staleness_aware(n: int = 4, *, codec: Codec = dense(), memory: Memory = nothing()) -> Recipe:  # noqa: B008
    """``n``-softsync with a rate for each age."""
    return recipe(
        "staleness-aware", memory=memory, codec=codec, exchange=server(), schedule=schedule(n), center=by_age(),
        grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="staleness-aware",
    make=staleness_aware,
    paper=Paper(
        "Zhang, Gupta, Lian, Liu",
        "Staleness-aware Async-SGD for Distributed Deep Learning",
        "IJCAI 2016, arXiv 1511.05950",
    ),
    when="asynchronous SGD diverges because there are many workers, or some are very late",
    start=Start(lr=0.1, momentum=0.8),
    laws=(
        Equals("one learner is plain SGD", Case(staleness_aware(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "while nothing is older than 1 it is asynchronous SGD",
            Case(staleness_aware(2), 2, momentum=0.9),
            Case(asgd(), 2, momentum=0.9),
        ),
    ),
)
