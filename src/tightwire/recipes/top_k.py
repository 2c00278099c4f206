"""Top-k with error feedback: send the largest of each tensor, add the rest to the next gradient.

    p = g + e;   send the largest k of |p|;   e ← p − sent;   ‖e‖² ≤ (1 − k/d)·‖p‖²

Aji, Heafield: Sparse Communication for Distributed Gradient Descent. EMNLP 2017, arXiv 1704.05021; convergence: Stich,
Cordonnier, Jaggi: Sparsified SGD with Memory. NeurIPS 2018, arXiv 1809.07599.
Your optimizer's momentum acts on what arrives. `dgc` allows none, for higher sparsity.
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.knob import Knob
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.levels import Width
from tightwire.codecs.topk import Gaps, topk
from tightwire.exchanges.gather import gather
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def top_k(density: Knob = 0.01, *, values: Width = "float32", gaps: Gaps = "16bit") -> Recipe:
    """The largest ``density`` of each tensor; ``values`` and ``gaps`` say in which bytes.

    All tensors travel in one message: what little is sent hides nothing behind the backward pass, and messages cost.
    """
    codec = topk(density, values=values, gaps=gaps)
    return recipe("top-k", memory=residual(), codec=codec, exchange=gather(), grain=whole())


entry = RecipeEntry(
    name="top-k",
    make=top_k,
    paper=Paper(
        "Aji, Heafield",
        "Sparse Communication for Distributed Gradient Descent",
        "EMNLP 2017, arXiv 1704.05021",
    ),
    when="the wire is 10 to 100 times too slow, workers are few, and the optimizer must keep its own momentum",
    start=Start(),
    laws=(
        Equals(
            "density 1 is synchronous SGD",
            Case(top_k(1.0), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals(
            "Rice-coded gaps carry the same as 16-bit ones",
            Case(top_k(0.2, gaps="rice"), 3, momentum=0.9),
            Case(top_k(0.2), 3, momentum=0.9),
        ),
    ),
)
