"""Elastic averaging with momentum: asynchronous EASGD whose workers take Nesterov steps.

    every tau steps: pull c;  e = α·(x − c);  x ← x − e;  push e, server: c ← c + e          α = β/P
    every step:      v ← δ·v − η·g(x + δ·v);  x ← x + v

Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD. NIPS 2015, arXiv 1412.6651 (δ = 0.99, β = 0.9).
The velocity is the worker's own and survives exchanges. The model holds the look-ahead point x + δ·v, which is where
the spring acts.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.recipes.easgd import PAPER, easgd
from tightwire.recipes.entry import Case, Equals, RecipeEntry, Start
from tightwire.rules.momentum import with_nesterov


def eamsgd(beta: float = 0.9, *, tau: int = 10, momentum: float = 0.9) -> Recipe:
    """Springs of strength ``beta``/P every ``tau`` steps, Nesterov ``momentum`` between them."""
    return easgd(beta, tau=tau).but(name="eamsgd", local=with_nesterov(momentum))


entry = RecipeEntry(
    name="eamsgd",
    make=eamsgd,
    paper=PAPER,
    when="as easgd, where momentum helps: the best of its family in the paper, and it bears the longest periods",
    start=Start(lr=0.1, momentum=0.0),
    laws=(
        Equals("without momentum it is easgd", Case(eamsgd(tau=2, momentum=0.0), 3), Case(easgd(tau=2), 3)),
        Equals("without springs the centre stays where it was", Case(eamsgd(0.0), 3), Case(steps=0)),
    ),
)
