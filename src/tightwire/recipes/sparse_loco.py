"""SparseLoCo: many local steps, then the largest few percent of the accumulated progress, in two bits each.

    each worker: H steps;   e ← β·e + (c − w_k);   send Q(largest of each chunk of e);   e ← e − sent
    c ← c − α·(1/P)·Σ_k sent_k;   w_k ← c

Sarfi, Thérien, Lidin, Belilovsky: Communication Efficient LLM Pre-training with SparseLoCo. arXiv 2508.15706, 2025.
Error feedback that fades takes the place of DiLoCo's outer momentum. The mean is over all P workers, as published; code
that divides by the number of workers that sent an element gives lone senders more weight than their memory gave up.
"""

from __future__ import annotations

from tightwire.algebra.knob import Knob
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.chunked import chunked
from tightwire.codecs.picks import Values
from tightwire.exchanges.gather import gather
from tightwire.memories.fading import fading
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.make import recipe
from tightwire.rules.add import add
from tightwire.rules.signals import progress
from tightwire.rules.yours import yours
from tightwire.schedules.clock import every


def sparse_loco(
    tau: int = 5,
    *,
    density: Knob = 0.05,
    decay: float = 0.95,
    rate: float = 1.0,
    chunk: int = 4096,
    values: Values = "two-bit",
) -> Recipe:
    """``tau`` local steps, then ``density`` of the progress; the paper's tau is 15 to 100, its density 0.01 to 0.03."""
    return recipe(
        "sparse-loco", local=yours(), send=progress(), memory=fading(decay), exchange=gather(),
        codec=chunked(density, chunk=chunk, values=values), schedule=every(tau), center=add(rate),
    )  # fmt: skip


entry = RecipeEntry(
    name="sparse-loco",
    make=sparse_loco,
    paper=Paper(
        "Sarfi, Thérien, Lidin, Belilovsky",
        "Communication Efficient LLM Pre-training with SparseLoCo",
        "arXiv 2508.15706, 2025",
    ),
    when="the wire is thousands of times too slow, as between data centres, and the run is long",
    start=Start(),
    laws=(
        Equals(
            "everything sent exactly is local SGD",
            Case(sparse_loco(4, density=1.0, values="float32"), 3, momentum=0.9),
            Case(local_sgd(4), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals(
            "one worker that sends everything exactly is your optimizer",
            Case(sparse_loco(4, density=1.0, values="float32"), 1, momentum=0.9),
            Case(momentum=0.9),
            within=1e-6,
        ),
    ),
)
