"""1-bit SGD: one bit an element, and the error carried forward, on both ways.

    up      x = g + r;   send sign bits and two means a row;   r ← x − x̂
    down    the owner of a piece adds up all x̂, and sends the sum the same way with a residual of its own

Seide, Fu, Droppo, Li, Yu: 1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training
of Speech DNNs. Interspeech 2014. Each way costs (P−1)/P·(M/8 + 8·rows) bytes.
"""

from __future__ import annotations

from tightwire.algebra.check import check
from tightwire.algebra.recipe import AnyRecipe, forever, phases, ways
from tightwire.codecs.onebit import onebit
from tightwire.exchanges.allreduce import ring
from tightwire.exchanges.owners import owners
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def one_bit(warmup: int = 0) -> AnyRecipe:
    """One-bit gradients both ways, after ``warmup`` uncompressed steps."""
    bits = recipe(
        "one-bit",
        memory=ways(up=residual(), down=residual()),
        codec=ways(up=onebit(), down=onebit()),
        exchange=owners(),
    )
    return bits if warmup == 0 else check(phases((warmup, sync_sgd()), (forever, bits), name="one-bit"))


entry = RecipeEntry(
    name="one-bit",
    make=one_bit,
    paper=Paper(
        "Seide, Fu, Droppo, Li, Yu",
        "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of Speech DNNs",
        "Interspeech 2014",
    ),
    when="the wire is about 10 times too slow and every coordinate should move in every step",
    start=Start(lr=0.5, momentum=0.0, rise=0.05),  # momentum would repeat what arrives late
    laws=(
        Equals(
            "rows of one element are sent exactly: synchronous SGD",
            Case(one_bit(), 3, momentum=0.9, problem="narrow"),
            Case(sync_sgd(ring()), 3, momentum=0.9, problem="narrow"),
            within=1e-5,
        ),
        Equals(
            "a warm-up that never ends is synchronous SGD",
            Case(one_bit(warmup=10_000), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
        ),
    ),
)
