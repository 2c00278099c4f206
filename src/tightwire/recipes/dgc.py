"""Deep Gradient Compression: send the largest 0.1% of what has been accumulated, keep the rest for later.

    v ← v + g;                  send the largest |v|;   v ← v − sent                      momentum=0
    u ← m·u + g;   v ← v + u;   send the largest |v|;   v ← v − sent;   u ← 0 where sent  momentum=m, the paper's

Lin, Han, Mao, Wang, Dally: Deep Gradient Compression. ICLR 2018, arXiv 1712.01887.
Matrices and convolutions go this way; one-dimensional tensors (biases, norms) send all they have in the same message.
Momentum lives in the memory, so with it your optimizer must have none. ``hosts="tiers"`` sums densely inside a host and
compresses between.

In total a gradient moves its weight by η·g/(1−m) if it waits long, and by η·g if it is sent at once, as its velocity is
cleared then. So with m = 0.9 weights that are sent often move at a tenth of the others' rate; without momentum all move
at the same. That trained every network better that we tried (docs/recipes/dgc.md), so it is the default.
"""

from __future__ import annotations

from typing import Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.grain import Grain, bucket
from tightwire.algebra.knob import Knob
from tightwire.algebra.recipe import AnyRecipe, tiers
from tightwire.algebra.world import Grouping, groups_of, host
from tightwire.codecs.choose import by_dimension
from tightwire.codecs.dense import dense
from tightwire.codecs.half import half
from tightwire.codecs.levels import Width
from tightwire.codecs.topk import Gaps, topk
from tightwire.exchanges.allreduce import ring
from tightwire.exchanges.gather import gather
from tightwire.memories.momentum import Form, Masking, momentum_correction
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.schedules.ramps import staircase


def dgc(  # noqa: PLR0913 -- the method's own knobs
    density: Knob = 0.001,
    *,
    warmup: int = 0,
    momentum: float = 0.0,
    masking: Masking = "where_sent",
    form: Form = "heavy-ball",
    values: Width = "float32",
    gaps: Gaps = "16bit",
    hosts: Literal["flat", "tiers"] = "flat",
    by: Grouping = host,
    grain: Grain = bucket(16.0, 16.0),  # noqa: B008 -- a frozen value
) -> AnyRecipe:
    """DGC at a density; ``momentum=0.9`` is the paper's momentum correction, ``masking`` and ``form`` belong to it.

    ``warmup`` is the number of epochs in which the density falls from 1/4 to its own (`warm_up`), 4 in the paper.
    ``values`` and ``gaps`` choose the bytes: ``log8`` and ``rice`` take 2.4 an element instead of 6. What values lose
    is fed back like everything that was not sent. Vectors then travel in half precision. A message holds the tensors of
    16 MiB (``grain``): those of the last layers travel while the backward pass goes on.

    >>> dgc(0.01).codec.rest.density
    0.01
    """
    if warmup:
        if callable(density):
            raise RecipeError(f"dgc: warmup={warmup} is for a density that is one number; leave it out")
        density = warm_up(density, levels=warmup)
    memory = momentum_correction(momentum, masking=masking, form=form) if momentum else residual(alone=True)
    vectors = dense() if values == "float32" else half()
    codec = by_dimension(vectors=vectors, rest=topk(density, values=values, gaps=gaps))
    flat = recipe("dgc", memory=memory, codec=codec, exchange=gather(), grain=grain)
    return flat if hosts == "flat" else tiers(sync_sgd(ring()), flat, by=by, name="dgc")


def warm_up(
    density: float = 0.001, *, levels: int = 4, every: int = 1, unit: Literal["epoch", "step"] = "epoch"
) -> Knob:
    """The paper's exponential warm-up: ``levels`` stretches from a density of 1/4 down, then ``density``.

    >>> warm_up().levels
    (0.25, 0.0625, 0.015625, 0.004, 0.001)
    """
    early = [max(density, 0.25**level) for level in range(1, levels)]
    return staircase(*early, *([max(density, 0.004)] if levels else []), density, every=every, unit=unit)


entry = RecipeEntry(
    name="dgc",
    make=dgc,
    paper=Paper(
        "Lin, Han, Mao, Wang, Dally",
        "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training",
        "ICLR 2018, arXiv 1712.01887",
    ),
    when="the wire is hundreds of times too slow and there are few workers",
    start=Start(lr=0.5, momentum=0.0),  # momentum would repeat what arrives late
    laws=(
        Equals("density 1 is plain SGD", Case(dgc(1.0), 3), Case(sync_sgd(), 3), within=1e-6),
        Equals(
            "density 1 with momentum, without masking, is momentum SGD",
            Case(dgc(1.0, momentum=0.9, masking="off"), 3),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals(
            "density 1 with momentum and masking is plain SGD on matrices",
            Case(dgc(1.0, momentum=0.9), 2, problem="narrow"),
            Case(sync_sgd(), 2, problem="narrow"),
            within=1e-6,
        ),
        Equals(
            "tiers of one worker each are the flat recipe",
            Case(dgc(0.1, hosts="tiers", by=groups_of(1)), 3),
            Case(dgc(0.1), 3),
        ),
        Equals(
            "in two tiers, density 1 with momentum, without masking, is momentum SGD",
            Case(dgc(1.0, momentum=0.9, masking="off", hosts="tiers", by=groups_of(2)), 4),
            Case(sync_sgd(), 4, momentum=0.9),
            within=1e-5,
        ),
    ),
)
