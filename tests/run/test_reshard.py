"""A server's state goes on, on another number of shards, as if nothing had been cut."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tightwire as tw
from tightwire.algebra.recipe import Recipe
from tightwire.algebra.tensors import Segment
from tightwire.exchanges.server import server
from tightwire.recipes.asgd import asgd
from tightwire.recipes.downpour import downpour
from tightwire.recipes.hardsync import hardsync
from tightwire.run.together import together
from tightwire.server.reshard import reshard

WORKERS = 2
RECIPES = {"asgd with momentum": asgd(), "hardsync": hardsync(), "downpour with Adagrad": downpour()}


def trained(recipe: Recipe, shards: int, *, steps: int, load: Path | None = None, save: Path | None = None) -> Tensor:
    """The answer of two workers after some steps, begun from a checkpoint or not."""

    def work(rank: int) -> Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
        momentum = 0.9 if recipe.name == "asgd" else 0.0
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        with tw.join(recipe.but(exchange=server(shards)), model, optimizer) as wire:
            if load is not None:
                wire.load(load)
            data = torch.Generator().manual_seed(10 * wire.clock + rank)
            for _ in range(steps):
                model(torch.randn(4, 5, generator=data)).square().mean().backward()
                wire.step()
            if save is not None:
                wire.save(save)
            with wire.answer() as answer:
                return torch.cat([p.detach().reshape(-1) for p in answer.parameters()])

    return together(WORKERS, work)[0]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_a_run_goes_on_with_other_shards_as_with_the_same(tmp_path: Path, name: str, before: int, after: int) -> None:
    recipe = RECIPES[name]
    trained(recipe, before, steps=4, save=tmp_path)
    same, other = (trained(recipe, shards, steps=4, load=tmp_path) for shards in (before, after))
    torch.testing.assert_close(other, same)


def test_the_checkpoint_of_another_recipe_is_still_refused(tmp_path: Path) -> None:
    trained(asgd(), 2, steps=1, save=tmp_path)
    with pytest.raises(tw.TightwireError, match="another recipe"):
        trained(hardsync(), 2, steps=1, load=tmp_path)


def test_what_only_some_shards_hold_is_kept() -> None:
    layout = torch.arange(6.0).view(3, 2)
    common = {"mover": {"rule": {}}, "version": 3, "clocks": {0: 1}, "staleness": {1: 2}, "dropped": 1}
    held = {"meta": {"worker": 0, "clock": 1, "version": 2}, "rates": (), "unused": []}
    first = {**common, "center": {"w": layout[:2]}, "held": [{**held, "values": {"w": layout[:2]}}]}
    second = {**common, "center": {"w@2": layout[2:]}, "held": []}
    (whole,) = reshard([first, second], [[Segment("w", 0, (3, 2))]])
    assert torch.equal(whole["center"]["w"], layout)
    assert torch.equal(whole["held"][0]["values"]["w"], torch.cat([layout[:2], torch.zeros(1, 2)]))
    assert whole["staleness"] == {1: 4} and whole["dropped"] == 2
