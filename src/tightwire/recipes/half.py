"""Gradients in 16 bits, both ways, with the rounding error fed back.

    up      x = g + r;   send round(x) to 16 bits;   r ← x − round(x)
    down    the owner of a piece adds up in full precision, and sends the sum the same way with a residual of its own

Micikevicius, Narang, Alben, Diamos, Elsen, Garcia, Ginsburg, Houston, Kuchaiev, Venkatesh, Wu: Mixed Precision
Training. ICLR 2018, arXiv 1710.03740. Each way costs (P−1)/P·2M bytes: half of a dense ring. Nothing is ever added in
16 bits, so the number of workers costs no precision, and what rounds to 0 now arrives later.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe, ways
from tightwire.codecs.half import Kind
from tightwire.codecs.half import half as sixteen_bits
from tightwire.exchanges.owners import owners
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def half(kind: Kind = "float16") -> Recipe:
    """Gradients as ``float16`` or ``bfloat16``."""
    return recipe(
        "half",
        memory=ways(up=residual(), down=residual()),
        codec=ways(up=sixteen_bits(kind), down=sixteen_bits(kind)),
        exchange=owners(),
    )


entry = RecipeEntry(
    name="half",
    make=half,
    paper=Paper(
        "Micikevicius, Narang, Alben, Diamos, Elsen, Garcia, Ginsburg, Houston, Kuchaiev, Venkatesh, Wu",
        "Mixed Precision Training",
        "ICLR 2018, arXiv 1710.03740",
    ),
    when="the wire is about twice too slow: half the bytes, and next to nothing else changes",
    laws=(
        Equals(
            "but for what has not arrived yet it is synchronous SGD",
            Case(half(), 3),
            Case(sync_sgd(), 3),
            within=1e-4,
        ),
        Equals(
            "with bfloat16 likewise",
            Case(half("bfloat16"), 3),
            Case(sync_sgd(), 3),
            within=1e-3,
        ),
    ),
)
