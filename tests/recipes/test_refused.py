"""What cannot be, said with the values and a remedy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tightwire.algebra.errors import JoinError, RecipeError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.exchanges.server import server
from tightwire.recipes import (
    async_easgd,
    backup_workers,
    downpour,
    eamsgd,
    easgd,
    hogwild_easgd,
    mdownpour,
    omnivore,
    sync_easgd,
)
from tightwire.rules.adopt import elastic
from tightwire.run.join import join
from tightwire.schedules.bounded import bounded_delay, ssp
from tightwire.schedules.clock import asynchronous
from tightwire.schedules.quorum import backups, collect, softsync
from tightwire.schedules.turns import round_robin

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "negative slack": (lambda: ssp(-1), r"staleness=-1.*0 or more clocks apart"),
    "negative delay": (lambda: bounded_delay(-2), r"bounded_delay\(-2\)"),
    "no quorum": (lambda: softsync(0), r"softsync\(0\).*n ≥ 1"),
    "nothing together": (lambda: collect(0), r"collect\(0.*at least one"),
    "a bound below 0": (lambda: collect(1, bound=-1), r"bound=-1"),
    "negative spare workers": (lambda: backups(-1), r"backups\(-1\)"),
    "no period": (lambda: round_robin(0), r"round_robin\(0\)"),
    "no push": (lambda: asynchronous(push=0), r"push=0"),
    "no shards": (lambda: server(0), r"shards=0.*at least one shard"),
    "springs too strong": (lambda: easgd(2.0), r"beta=2.0.*0 ≤ beta < 2"),
    "springs too strong, first come": (lambda: async_easgd(-0.1), r"beta=-0.1"),
    "springs too strong, without locks": (lambda: hogwild_easgd(2.5), r"beta=2.5"),
    "springs too strong, together": (lambda: sync_easgd(3.0), r"beta=3.0"),
    "springs too strong, by themselves": (lambda: elastic(2.0), r"beta=2.0.*0 ≤ beta < 2"),
    "another server rule": (lambda: downpour(server_rule="adam"), r"'adam' is adagrad or fixed"),  # type: ignore[arg-type]
    "another end for the late": (lambda: backup_workers(late="apply"), r"late='apply'.*\(drop\).*\(refund\)"),  # type: ignore[arg-type]
    "momentum of 1": (lambda: mdownpour(1.0), r"momentum=1.0.*below 1"),
    "no groups": (lambda: omnivore(0), r"groups=0 is at least 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, says = REFUSED[name]
    with pytest.raises(RecipeError, match=says):
        make()


@pytest.mark.parametrize("recipe", [eamsgd(), mdownpour(), omnivore(1)], ids=lambda recipe: recipe.name)
def test_momentum_is_set_once(recipe: AnyRecipe) -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(JoinError, match=r"momentum twice.*in the seat of your optimizer and SGD has 0.5"):
        join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5))
    with pytest.raises(JoinError, match=r"sets the momentum of your optimizer, and Adam has none; use SGD"):
        join(recipe, model, torch.optim.Adam(model.parameters()))


def test_the_momentum_that_was_set_is_taken_back() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with join(eamsgd(), model, optimizer) as wire:
        model(torch.ones(1, 2)).sum().backward()
        wire.step()
        assert optimizer.param_groups[0]["momentum"] == 0
        assert optimizer.param_groups[0]["nesterov"] is False
