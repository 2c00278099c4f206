"""Downpour: replicas that train by themselves, push what they moved and fetch the centre, each at its own pace.

    replica: w ← w − α·g every step; every n_push steps push d = Σ α·g, every n_fetch steps fetch the centre
    server, on every push: G ← G + d²;   c ← c − γ·d/√G                      (Adagrad), or c ← c − d (fixed rate)

Dean, Corrado, Monga, Chen, Devin, Le, Mao, Ranzato, Senior, Tucker, Yang, Ng: Large Scale Distributed Deep Networks.
NIPS 2012 (n_push = n_fetch = 1, Adagrad on the server, one replica alone first). A fetch between two pushes keeps what
the replica has not pushed yet. ``warm`` steps are a phase without exchange: the first replica that ends it is the
centre of the next one.
"""

from __future__ import annotations

from typing import Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import AnyRecipe, forever, phases
from tightwire.exchanges.nobody import nobody
from tightwire.exchanges.server import server
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.rules.adagrad import adagrad
from tightwire.rules.add import add
from tightwire.rules.adopt import rebase
from tightwire.rules.average import average
from tightwire.rules.signals import progress
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous, at_end


def downpour(
    push: int = 1,
    fetch: int = 1,
    *,
    server_rule: Literal["adagrad", "fixed"] = "adagrad",
    gamma: float = 0.03,
    warm: int = 0,
    shards: int = 1,
) -> AnyRecipe:
    """Push every ``push`` steps, fetch every ``fetch``; ``warm`` steps alone come first."""
    if server_rule not in ("adagrad", "fixed") or warm < 0:
        raise RecipeError(f"downpour: server_rule={server_rule!r} is adagrad or fixed, warm={warm} at least 0")
    together = recipe(
        "downpour", local=yours(), send=progress(), exchange=server(shards),
        schedule=asynchronous(push=push, fetch=fetch), adopt=rebase(), grain=whole(),
        center=adagrad(gamma) if server_rule == "adagrad" else add(over="sum"),
    )  # fmt: skip
    if warm == 0:
        return together
    alone = recipe("downpour-alone", local=yours(), exchange=nobody(), schedule=at_end(), center=average())
    return phases((warm, alone), (forever, together), name="downpour")


entry = RecipeEntry(
    name="downpour",
    make=downpour,
    paper=Paper(
        "Dean, Corrado, Monga, Chen, Devin, Le, Mao, Ranzato, Senior, Tucker, Yang, Ng",
        "Large Scale Distributed Deep Networks",
        "NIPS 2012",
    ),
    when="workers differ in speed, the wire allows an exchange every few steps, and rates should adapt by themselves",
    start=Start(lr=0.05, momentum=0.0),
    laws=(
        Equals(
            "with a fixed rate one worker is plain SGD for any period",
            Case(downpour(3, 3, server_rule="fixed"), 1, momentum=0.9),
            Case(momentum=0.9),
            within=1e-6,
        ),
        Equals(
            "a fetch between two pushes loses nothing",
            Case(downpour(4, 2, server_rule="fixed"), 1, momentum=0.9),
            Case(momentum=0.9),
            within=1e-6,
        ),
        Equals(
            "a warm start of one worker changes nothing at a fixed rate",
            Case(downpour(server_rule="fixed", warm=7), 1, momentum=0.9),
            Case(momentum=0.9),
            within=1e-6,
        ),
    ),
)
