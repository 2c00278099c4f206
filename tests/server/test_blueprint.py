"""A shard told to another process: built again from plain data, it goes on bit for bit; what is no shard is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.server.shards import flat, push, shard, shard_with_optimizer
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.recipe import Ways, leaves
from tightwire.recipes.catalogue import CATALOGUE
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.parts import heard, told
from tightwire.server.shard import Shard
from tightwire.server.wireform import WireForm

SERVED = [
    leaf.recipe for entry in CATALOGUE.values() for leaf in leaves(entry.make())
    if leaf.recipe.exchange.pattern == "server"
]  # fmt: skip


def again(made: Shard) -> Shard:
    """Through JSON and back."""
    data, tensors = WireForm().describe(made)
    return WireForm().build(json.loads(json.dumps(data)), [tensor.clone() for tensor in tensors])


@pytest.mark.parametrize("recipe", SERVED, ids=lambda recipe: recipe.name)
def test_parts_of_every_recipe_with_a_server_can_be_told(recipe: Any) -> None:
    codecs = (recipe.codec.up, recipe.codec.down) if isinstance(recipe.codec, Ways) else (recipe.codec,)
    for part in (recipe.center, recipe.schedule, *codecs):
        assert heard(json.loads(json.dumps(told(part)))) == part


@pytest.mark.parametrize(
    "make",
    [torch.optim.SGD, lambda groups: torch.optim.SGD(groups, momentum=0.9, nesterov=True), torch.optim.AdamW],
    ids=["sgd", "nesterov", "adamw"],
)
def test_a_shard_with_your_optimizer_goes_on_bit_for_bit(make: Any) -> None:
    ours = shard_with_optimizer(asynchronous(), make, workers=2)
    ours.handle(push(0, 0, 1.5, rates=(0.5, 0.25)))
    theirs = again(ours)
    for number in (1, 2):
        for one in (ours, theirs):
            one.handle(push(1, number, 0.3, version=number, rates=(0.1, 0.05)))
    assert flat(ours).equal(flat(theirs)) and ours.version == theirs.version == 3
    assert theirs.taken == ours.taken and theirs.staleness == ours.staleness


def test_what_a_shard_holds_comes_along() -> None:
    ours = shard(every_step(), workers=2)
    ours.handle(push(0, 0, 2.0))
    theirs = again(ours)
    for one in (ours, theirs):
        one.handle(push(1, 0, 4.0))
    assert flat(ours).equal(flat(theirs)) and theirs.version == 1


def test_optimizers_and_parts_of_ones_own_are_refused_in_words() -> None:
    class Mine(torch.optim.SGD):
        pass

    with pytest.raises(RecipeError, match=r"Mine is not of torch\.optim.*leave out --server"):
        WireForm().describe(shard_with_optimizer(asynchronous(), Mine))
    with pytest.raises(RecipeError, match="only announced parts; leave out --server"):
        told(lambda at: 0.5)


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:Popen", "tightwire.run.worker:Worker", "tightwire.rules.yours:dataclass", "x"]
)
def test_nothing_but_parts_is_made(name: str) -> None:
    with pytest.raises(PayloadError, match="no part that is known here"):
        heard({"$part": name, "with": {}})


DATA = WireForm().describe(shard_with_optimizer(asynchronous(), workers=2))


@given(st.data())
def test_a_blueprint_with_anything_replaced_is_built_or_refused(data: st.DataObject) -> None:
    plain = json.loads(json.dumps(DATA[0]))
    place = plain
    for _ in range(data.draw(st.integers(1, 5))):
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key]:
            break
        parent, place = place, place[key]
    else:
        key = next(key for key in (parent if isinstance(parent, dict) else range(len(parent))) if parent[key] is place)
        place = parent
    place[key] = data.draw(st.sampled_from([None, -1, 10**12, "x", [], {}, [["x"]], 0.5, {"$tuple": []}]))
    with suppress(PayloadError):
        WireForm().build(plain, [tensor.clone() for tensor in DATA[1]])
