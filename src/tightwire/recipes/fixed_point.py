"""Gradients in fixed point, rounded at random so that they are right on average.

    x̂ = ε·⌊x/ε⌋ or ε·(⌊x/ε⌋ + 1), the latter with probability x/ε − ⌊x/ε⌋;   ε = 2^−fraction

Gupta, Agrawal, Gopalakrishnan, Narayanan: Deep Learning with Limited Numerical Precision. ICML 2015, arXiv 1502.02551.
Up to the owner of a piece, and the sum down again: (P−1)/P·M·bits/8 bytes each way. Without a memory, as in the paper:
rounding to nearest would lose every gradient below ε/2 for good, random rounding lets it through now and then.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe, ways
from tightwire.codecs.fixed import fixed
from tightwire.exchanges.owners import owners
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def fixed_point(whole: int = 2, fraction: int = 14) -> Recipe:
    """Words of ``whole`` bits before the point (the sign among them) and ``fraction`` behind it: 8 or 16 in all."""
    word = fixed(whole, fraction)
    return recipe("fixed-point", codec=ways(up=word, down=word), exchange=owners())


entry = RecipeEntry(
    name="fixed-point",
    make=fixed_point,
    paper=Paper(
        "Gupta, Agrawal, Gopalakrishnan, Narayanan",
        "Deep Learning with Limited Numerical Precision",
        "ICML 2015, arXiv 1502.02551",
    ),
    when="the wire or the machine wants whole numbers, and gradients are known to stay within a range",
    laws=(
        Equals(
            "but for rounding it is synchronous SGD",
            Case(fixed_point(), 3),
            Case(sync_sgd(), 3),
            within=1e-3,
        ),
    ),
)
