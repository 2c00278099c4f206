"""EF-SGD with scaled signs: one bit an element, and the error carried forward.

    p = g + e;   Δ = (‖p‖₁/d)·sign(p);   e ← p − Δ;   your optimizer steps on the sum of all Δ

Karimireddy, Rebjock, Stich, Jaggi: Error Feedback Fixes SignSGD and other Gradient Compression Schemes. ICML 2019,
arXiv 1901.09847. The paper's p is η·g + e; here the rate is your optimizer's and acts on what arrives.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.codecs.sign import Per, sign
from tightwire.exchanges.allreduce import ring
from tightwire.exchanges.gather import gather
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def ef_sign(per: Per = "tensor") -> Recipe:
    """Signs and the mean magnitude of each tensor (or row)."""
    return recipe("ef-sign", memory=residual(), codec=sign(per), exchange=gather())


entry = RecipeEntry(
    name="ef-sign",
    make=ef_sign,
    paper=Paper(
        "Karimireddy, Rebjock, Stich, Jaggi",
        "Error Feedback Fixes SignSGD and other Gradient Compression Schemes",
        "ICML 2019, arXiv 1901.09847",
    ),
    when="the wire is about 10 times too slow, workers are few, and layers have too few inputs for one-bit",
    start=Start(),
    laws=(
        Equals(
            "rows of one element, each with its magnitude, are sent exactly: synchronous SGD",
            Case(ef_sign("row"), 3, momentum=0.9, problem="narrow"),
            Case(sync_sgd(ring()), 3, momentum=0.9, problem="narrow"),
            within=1e-5,
        ),
    ),
)
