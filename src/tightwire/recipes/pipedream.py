"""PipeDream: adjacent layers on each worker, one forward and one backward pass in turn, weights stashed.

    w(t+1) = w(t) − ν·∇f(w₁(t−n+1), …, w_n(t))

A backward pass sees the weights of its forward pass, n−1−s updates old at stage s of n (`splits.pipedream`); with
``sync="vertical"`` every stage sees the same version, n−1 updates old.

Narayanan, Harlap, Phanishayee, Seshadri, Devanur, Ganger, Gibbons, Zaharia: PipeDream: Generalized Pipeline Parallelism
for DNN Training. SOSP 2019.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.algebra.split import Compensation, Cut
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import split_model
from tightwire.splits.pipedream import PipeDream, Sync


def pipedream(
    stages: int = 2,
    *,
    cuts: tuple[int, ...] | None = None,
    sync: Sync = "none",
    replicas: int = 1,
    compensation: Compensation = "none",
) -> Recipe:
    """One stage of adjacent layers on each worker; a backward pass sees the weights of its forward pass."""
    return split_model("pipedream", PipeDream(stages, Cut(cuts, replicas=replicas), sync, compensation))


entry = RecipeEntry(
    name="pipedream",
    make=pipedream,
    paper=Paper(
        "Narayanan, Harlap, Phanishayee, Seshadri, Devanur, Ganger, Gibbons, Zaharia",
        "PipeDream: Generalized Pipeline Parallelism for DNN Training",
        "SOSP 2019",
    ),
    when="a sequential model in stages, memory for several versions of the weights, no flush wanted",
    laws=(Equals("one stage is plain SGD", Case(pipedream(1), 1, momentum=0.9), Case(momentum=0.9)),),
    workers=2,
)
