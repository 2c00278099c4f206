"""TernGrad: gradients of three levels, unbiased, with one scaler for all workers.

    g ← clip(g, ±2.5σ);   s = max over workers and elements of |g|, per tensor;   g̃ = s·sign(g)·Bernoulli(|g|/s)

Wen, Xu, Yan, Wu, Wang, Chen, Li: TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning.
NeurIPS 2017, arXiv 1705.07878. Two bits an element. No memory: what is rounded away is right on average.
"""

from __future__ import annotations

from math import inf

from tightwire.algebra.recipe import Recipe
from tightwire.codecs.terngrad import terngrad as ternary
from tightwire.exchanges.gather import gather
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.qsgd import qsgd


def terngrad(clip: float = 2.5) -> Recipe:
    """Ternary gradients, clipped at ``clip`` deviations of each tensor."""
    return recipe("terngrad", codec=ternary(clip), exchange=gather())


entry = RecipeEntry(
    name="terngrad",
    make=terngrad,
    paper=Paper(
        "Wen, Xu, Yan, Wu, Wang, Chen, Li",
        "TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning",
        "NeurIPS 2017, arXiv 1705.07878",
    ),
    when="the wire is a few times too slow and no worker should owe anything: 16 times smaller without a memory",
    start=Start(lr=0.0175),  # the draws are noise that only a small rate averages out
    laws=(
        Equals(
            "one worker, unclipped, is QSGD of one level of the largest of each tensor",
            Case(terngrad(inf), 1, momentum=0.9),
            Case(qsgd(1, bucket=1000, norm="max"), 1, momentum=0.9),
            within=1e-6,
        ),
    ),
)
