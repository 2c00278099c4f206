"""Backup workers: synchronous SGD that waits for the first N of N + b gradients and drops the rest.

    worker: read w(t);  send (g, t)
    server: drop what is tagged before t;  at N gradients: w ← OptimizerStep(w, (1/N)·Σ g);  t ← t + 1

Chen, Pan, Monga, Bengio, Jozefowicz: Revisiting Distributed Synchronous SGD. ICLR 2016 workshop, arXiv 1604.00981.
N + b is the number of workers. A late gradient is never applied: it is counted, and lost, or with ``late="refund"``
added to the next gradient of the same worker.
"""

from __future__ import annotations

from typing import Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.server import server
from tightwire.memories.nothing import nothing
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.schedules.quorum import backups


def backup_workers(spare: int = 1, *, late: Literal["drop", "refund"] = "drop") -> Recipe:
    """All but ``spare`` workers are waited for."""
    if late not in ("drop", "refund"):
        raise RecipeError(f"backup-workers: late={late!r}; late gradients are lost (drop) or kept for later (refund)")
    memory = residual() if late == "refund" else nothing()
    return recipe("backup-workers", memory=memory, exchange=server(), schedule=backups(spare), grain=whole())


entry = RecipeEntry(
    name="backup-workers",
    make=backup_workers,
    paper=Paper(
        "Chen, Pan, Monga, Bengio, Jozefowicz",
        "Revisiting Distributed Synchronous SGD",
        "ICLR 2016 workshop, arXiv 1604.00981",
    ),
    when="synchronous SGD, but one worker in many is slow, and never the same for reasons of its data",
    laws=(
        Equals("one worker is plain SGD", Case(backup_workers(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "without spare workers it is synchronous SGD",
            Case(backup_workers(0), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
    ),
)
