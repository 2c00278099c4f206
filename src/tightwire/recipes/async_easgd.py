"""Async EASGD: elastic averaging, first come, first served; worker and master both pull from the same two points.

    worker: send x, receive c;  x ← x − α·(x − c) − η·g      master, on every x: c ← c + α·(x − c)      α = β/P

You, Buluç, Demmel: Scaling Deep Learning on GPU and Knights Landing clusters. SC 2017, arXiv 1708.02983.
The master takes the displacement itself while nobody else can touch the centre (their lock), and replies with the
centre as it was. An exchange costs one message each way, in every step unless tau says otherwise.
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.server import server
from tightwire.recipes.easgd import easgd
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.adopt import elastic
from tightwire.rules.signals import weights
from tightwire.rules.springs import tow
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous

PAPER = Paper(
    "You, Buluç, Demmel", "Scaling Deep Learning on GPU and Knights Landing clusters", "SC 2017, arXiv 1708.02983"
)


def async_easgd(beta: float = 0.9, *, tau: int = 1) -> Recipe:
    """Springs of strength ``beta``/P, every ``tau`` steps of each worker, one at a time."""
    return recipe(
        "async-easgd", local=yours(), send=weights(), exchange=server(), center=tow(beta), adopt=elastic(beta),
        schedule=asynchronous(push=tau, fetch=tau, order="before_local"), grain=whole(),
    )  # fmt: skip


entry = RecipeEntry(
    name="async-easgd",
    make=async_easgd,
    paper=PAPER,
    when="elastic averaging with an exchange in every step, and workers that differ in speed",
    start=Start(lr=0.6, momentum=0.0),
    laws=(
        Equals("without springs the centre stays where it was", Case(async_easgd(0.0), 3), Case(steps=0)),
        Equals(
            "one worker cannot tell it from easgd",
            Case(async_easgd(0.5, tau=2), 1, momentum=0.9),
            Case(easgd(0.5, tau=2), 1, momentum=0.9),
            within=1e-6,
        ),
    ),
)
