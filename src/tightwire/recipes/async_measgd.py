"""Async MEASGD: Async EASGD whose workers have momentum.

    worker: v ← μ·v − η·g;   x ← x + v − α·(x − c)          master, on every x: c ← c + α·(x − c)          α = β/P

You, Buluç, Demmel: Scaling Deep Learning on GPU and Knights Landing clusters. SC 2017, arXiv 1708.02983.
The velocity is the worker's own; springs do not enter it.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.recipes.async_easgd import PAPER, async_easgd
from tightwire.recipes.entry import Case, Equals, RecipeEntry, Start
from tightwire.rules.momentum import with_momentum


def async_measgd(beta: float = 0.9, *, tau: int = 1, momentum: float = 0.9) -> Recipe:
    """Springs of strength ``beta``/P every ``tau`` steps, heavy-ball ``momentum`` on each worker."""
    return async_easgd(beta, tau=tau).but(name="async-measgd", local=with_momentum(momentum))


entry = RecipeEntry(
    name="async-measgd",
    make=async_measgd,
    paper=PAPER,
    when="as async-easgd, where momentum helps",
    start=Start(lr=0.1, momentum=0.0),
    laws=(
        Equals("without momentum it is async-easgd", Case(async_measgd(momentum=0.0), 3), Case(async_easgd(), 3)),
        Equals(
            "its momentum is that of your optimizer",
            Case(async_measgd(momentum=0.9), 3),
            Case(async_easgd(), 3, momentum=0.9),
        ),
    ),
)
