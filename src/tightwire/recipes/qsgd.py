"""QSGD: every element rounded at random to a few levels of its bucket's norm.

    Q(v_i) = ‖v‖·sign(v_i)·ξ_i,   ξ_i ∈ {l/s, (l + 1)/s} around |v_i|/‖v‖ at random, so that E[Q(v)] = v

Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding.
NeurIPS 2017, arXiv 1610.02132. No memory: what is rounded away is right on average.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.codecs.qsgd import Norm
from tightwire.codecs.qsgd import qsgd as levels_of_norm
from tightwire.exchanges.gather import gather
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def qsgd(levels: int = 7, *, bucket: int = 512, norm: Norm = "max") -> Recipe:
    """``levels`` levels of the norm of each ``bucket`` elements: 7 take 4 bits an element."""
    return recipe("qsgd", codec=levels_of_norm(levels, bucket=bucket, norm=norm), exchange=gather())


entry = RecipeEntry(
    name="qsgd",
    make=qsgd,
    paper=Paper(
        "Alistarh, Grubic, Li, Tomioka, Vojnovic",
        "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding",
        "NeurIPS 2017, arXiv 1610.02132",
    ),
    when="the wire is a few times too slow and no worker should owe anything; levels trade bytes for noise",
    start=Start(),
    laws=(
        Equals(
            "buckets of one element are exact: synchronous SGD",
            Case(qsgd(1, bucket=1), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
    ),
)
