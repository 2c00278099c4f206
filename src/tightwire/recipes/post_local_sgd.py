"""Post-local SGD: synchronous at first, local afterwards.

Lin, Stich, Patel, Jaggi: Don't Use Large Mini-Batches, Use Local SGD. ICLR 2020, arXiv 1808.07217.
The early steps decide most; averaging seldom only after them costs little accuracy.
"""

from __future__ import annotations

from tightwire.algebra.check import check
from tightwire.algebra.recipe import AnyRecipe, forever, phases
from tightwire.exchanges.allreduce import ring
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.sync_sgd import sync_sgd


def post_local_sgd(start: int = 300, *, tau: int = 8, first: AnyRecipe | None = None) -> AnyRecipe:
    """`sync_sgd` (or ``first``) for ``start`` steps, then `local_sgd` every ``tau``."""
    return check(phases((start, first or sync_sgd()), (forever, local_sgd(tau)), name="post-local-sgd"))


entry = RecipeEntry(
    name="post-local-sgd",
    make=post_local_sgd,
    paper=Paper(
        "Lin, Stich, Patel, Jaggi", "Don't Use Large Mini-Batches, Use Local SGD", "ICLR 2020, arXiv 1808.07217"
    ),
    when="local SGD alone loses accuracy early in training",
    laws=(
        Equals(
            "a switch that never comes is synchronous SGD",
            Case(post_local_sgd(10_000, first=sync_sgd(ring())), 3, momentum=0.9),
            Case(sync_sgd(ring()), 3, momentum=0.9),
        ),
        Equals("one worker is plain SGD", Case(post_local_sgd(5), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "with tau 1 and no momentum the switch changes nothing",
            Case(post_local_sgd(5, tau=1), 3),
            Case(sync_sgd(), 3),
            within=1e-5,
        ),
    ),
)
