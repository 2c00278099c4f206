"""TernGrad: gradients of three levels with one scaler for all workers; what was rounded away is sent later.

    v = g + r;   v̄ = clip(v, ±c·σ);   s = max over workers and elements of |v̄|, per tensor
    ṽ = s·sign(v)·Bernoulli(|v̄|/s);   r ← v − ṽ

Wen, Xu, Yan, Wu, Wang, Chen, Li: TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning.
NeurIPS 2017, arXiv 1705.07878. Two bits an element. The paper has no memory and clips at c = 2.5: the draws then double
the variance of gradients, and what is clipped of heavy tails is lost. A memory repays both, but only if what it keeps
shrinks: at c = 1 much less is rounded away than there was, at 2.5 more (`tests/codecs/test_terngrad.py`).
"""

from __future__ import annotations

from math import inf

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.terngrad import terngrad as ternary
from tightwire.exchanges.gather import gather
from tightwire.memories.nothing import nothing
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.qsgd import qsgd

_MOST_CLIP = 2.0


def terngrad(clip: float = 1.0, *, feedback: bool = True) -> Recipe:
    """Ternary gradients, clipped at ``clip`` deviations of each tensor; what was rounded away is sent later."""
    if feedback and not clip <= _MOST_CLIP:
        raise RecipeError(
            f"terngrad(clip={clip}): beyond {_MOST_CLIP} deviations more is rounded away than there was, so the memory "
            "would grow without end; clip at 1, or give feedback=False, which is the paper's"
        )
    memory = residual() if feedback else nothing()
    return recipe("terngrad", memory=memory, codec=ternary(clip), exchange=gather())


entry = RecipeEntry(
    name="terngrad",
    make=terngrad,
    paper=Paper(
        "Wen, Xu, Yan, Wu, Wang, Chen, Li",
        "TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning",
        "NeurIPS 2017, arXiv 1705.07878",
    ),
    when="the wire is about 10 times too slow: two bits an element, and every element may move in every step",
    start=Start(lr=0.5, momentum=0.0, rise=0.05),  # momentum would repeat what arrives late
    laws=(
        Equals(
            "one worker, unclipped and without a memory, is QSGD of one level of the largest of each tensor",
            Case(terngrad(inf, feedback=False), 1, momentum=0.9),
            Case(qsgd(1, bucket=1000, norm="max"), 1, momentum=0.9),
            within=1e-6,
        ),
    ),
)
