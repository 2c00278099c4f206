"""FireCaffe: synchronous SGD whose gradients are added up along a binomial reduction tree.

    2⌈log₂P⌉ rounds of the whole gradient, where a single parameter server takes P

Iandola, Moskewicz, Ashraf, Keutzer: FireCaffe. CVPR 2016, arXiv 1511.00175.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.allreduce import tree
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def firecaffe() -> Recipe:
    """Synchronous SGD along a reduction tree."""
    return recipe("firecaffe", exchange=tree())


entry = RecipeEntry(
    name="firecaffe",
    make=firecaffe,
    paper=Paper(
        "Iandola, Moskewicz, Ashraf, Keutzer",
        "FireCaffe: near-linear acceleration of deep neural network training on compute clusters",
        "CVPR 2016, arXiv 1511.00175",
    ),
    when="small models on any number of workers: few rounds matter more than bytes",
    laws=(
        Equals("one worker is plain SGD", Case(firecaffe(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "a tree adds up to what a ring does",
            Case(firecaffe(), 5, momentum=0.9),
            Case(sync_sgd(), 5, momentum=0.9),
            within=1e-5,
        ),
    ),
)
