"""Hogwild EASGD: elastic averaging whose centre lies in one memory, moved by all workers without locks.

    each worker: read c (no lock);  e = α·(x − c);  x ← x − e − η·g;  c ← c + e (no lock)          α = β/P

You, Buluç, Demmel: Scaling Deep Learning on GPU and Knights Landing clusters. SC 2017, arXiv 1708.02983.
It is their Async EASGD without the master's lock: what two workers add to one number at once may be lost, and then the
sum of workers and centre is no longer conserved. The answer is the centre.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.shared import shared_center
from tightwire.recipes.async_easgd import PAPER
from tightwire.recipes.easgd import easgd
from tightwire.recipes.entry import Case, Equals, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.adopt import elastic
from tightwire.rules.signals import displacement
from tightwire.rules.springs import spring
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous


def hogwild_easgd(beta: float = 0.9, *, tau: int = 1) -> Recipe:
    """Springs of strength ``beta``/P, every ``tau`` steps of each worker, without locks."""
    return recipe(
        "hogwild-easgd", local=yours(), send=displacement(), exchange=shared_center(), center=spring(beta),
        adopt=elastic(beta), schedule=asynchronous(push=tau, fetch=tau, order="before_local"),
    )  # fmt: skip


entry = RecipeEntry(
    name="hogwild-easgd",
    make=hogwild_easgd,
    paper=PAPER,
    when="all workers are on one machine and should explore apart, tied to a centre that costs no message",
    start=Start(lr=0.6, momentum=0.0),
    laws=(
        Equals("without springs the centre stays where it was", Case(hogwild_easgd(0.0), 3), Case(steps=0)),
        Equals(
            "one worker cannot tell it from easgd",
            Case(hogwild_easgd(0.5, tau=2), 1, momentum=0.9),
            Case(easgd(0.5, tau=2), 1, momentum=0.9),
        ),
    ),
)
