"""PowerAI DDL: synchronous SGD over a multi-dimensional ring, fast links in the first dimension.

    reduce-scatter along dimension 1 on n bytes, along dimension 2 on n/P₁, …; all-gather back in reverse order

Cho, Finkler, Kumar, Kung, Saxena, Sreedhar: PowerAI DDL. arXiv 1708.02188, 2017.
Between hosts of P₁ workers each, a worker sends 1/P₁ of the gradient, in 2(P₂−1) rounds instead of 2(P−1).
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.allreduce import multi_ring
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def ddl(*dims: int) -> Recipe:
    """Synchronous SGD over a grid of rings; ``dims`` multiply to the number of workers, none makes it nearly square."""
    return recipe("ddl", exchange=multi_ring(*dims))


entry = RecipeEntry(
    name="ddl",
    make=ddl,
    paper=Paper("Cho, Finkler, Kumar, Kung, Saxena, Sreedhar", "PowerAI DDL", "arXiv 1708.02188, 2017"),
    when="links of different speed: several workers on a host, a slower network between hosts",
    laws=(
        Equals("one worker is plain SGD", Case(ddl(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "a grid adds up to what a ring does",
            Case(ddl(3, 2), 6, momentum=0.9),
            Case(sync_sgd(), 6, momentum=0.9),
            within=1e-5,
        ),
    ),
)
