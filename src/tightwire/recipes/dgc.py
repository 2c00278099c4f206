"""Deep Gradient Compression: send the largest 0.1% of the accumulated velocity, keep the rest for later.

    u ← m·u + g;   v ← v + u;   send the largest |v|;   v ← v − sent;   u ← 0 where sent

Lin, Han, Mao, Wang, Dally: Deep Gradient Compression. ICLR 2018, arXiv 1712.01887.
Matrices and convolutions go this way; one-dimensional tensors (biases, norms) send their whole velocity. Momentum lives
in the memory, so your optimizer must have none. ``hosts="tiers"`` sums densely inside a host and compresses between.
"""

from __future__ import annotations

from typing import Literal

from tightwire.algebra.check import check
from tightwire.algebra.knob import Knob
from tightwire.algebra.recipe import AnyRecipe, everything, one_dimensional, parts, tiers
from tightwire.algebra.world import Grouping, groups_of, host
from tightwire.codecs.topk import topk
from tightwire.exchanges.allreduce import ring
from tightwire.exchanges.gather import gather
from tightwire.memories.momentum import Masking, momentum_correction
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def dgc(
    density: Knob = 0.001,
    *,
    momentum: float = 0.9,
    masking: Masking = "where_sent",
    hosts: Literal["flat", "tiers"] = "flat",
    by: Grouping = host,
) -> AnyRecipe:
    """DGC at a density; ``momentum=0`` drops the velocity, for optimizers that have their own.

    >>> dgc(0.01).choices[1].recipe.codec.density
    0.01
    """
    small_memory = momentum_correction(momentum, masking="off") if momentum else residual()
    large_memory = momentum_correction(momentum, masking=masking) if momentum else residual()
    small = recipe("dgc-small", memory=small_memory, exchange=ring())
    large = recipe("dgc", memory=large_memory, codec=topk(density), exchange=gather())
    flat = parts((one_dimensional, small), (everything, large), name="dgc")
    return check(flat if hosts == "flat" else tiers(sync_sgd(ring()), flat, by=by, name="dgc"))


entry = RecipeEntry(
    name="dgc",
    make=dgc,
    paper=Paper(
        "Lin, Han, Mao, Wang, Dally",
        "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training",
        "ICLR 2018, arXiv 1712.01887",
    ),
    when="the wire is hundreds of times too slow and there are few workers",
    start=Start(momentum=0.0),
    laws=(
        Equals(
            "density 1 without masking is momentum SGD",
            Case(dgc(1.0, masking="off"), 3),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals(
            "density 1 with masking is plain SGD on matrices",
            Case(dgc(1.0), 2, problem="narrow"),
            Case(sync_sgd(), 2, problem="narrow"),
            within=1e-6,
        ),
        Equals(
            "tiers of one worker each are the flat recipe",
            Case(dgc(0.1, hosts="tiers", by=groups_of(1)), 3),
            Case(dgc(0.1), 3),
        ),
        Equals(
            "in two tiers, density 1 without masking is momentum SGD",
            Case(dgc(1.0, masking="off", hosts="tiers", by=groups_of(2)), 4),
            Case(sync_sgd(), 4, momentum=0.9),
            within=1e-5,
        ),
    ),
)
