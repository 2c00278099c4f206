"""Everything a shard knows leaves it and comes back: in the same world, in another one, through a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.server.shards import ORIGIN, flat, push, shard, shard_with_optimizer
from tightwire.run.tree import put_together, take_apart
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.events import Export, Exported, Import, Rest, Taken
from tightwire.server.shard import Shard


def directly(state: dict[str, Any]) -> dict[str, Any]:
    return state


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    data, tensors = take_apart(state)
    revived: dict[str, Any] = put_together(json.loads(json.dumps(data)), tensors)
    return revived


def with_rule() -> Shard:
    return shard(every_step(), workers=3)


def with_adam() -> Shard:
    return shard_with_optimizer(every_step(), torch.optim.Adam, workers=3)


@pytest.mark.parametrize(
    ("make", "by"),
    [
        (with_rule, directly),
        (with_rule, through_a_file),
        (with_adam, through_a_file),
        (with_adam, directly),
    ],
)
def test_a_shard_goes_on_as_the_one_it_was_copied_from(make: Callable[[], Shard], by: Callable[[Any], Any]) -> None:
    one, two = make(), make()
    for clock in range(2):
        for worker in range(3):
            one.handle(push(worker, clock, float(worker), version=clock))
    one.handle(push(2, 2, 7.0, version=1, unused=frozenset({"v"})))
    ((_, reply),) = one.handle(Export(0))
    assert isinstance(reply, Exported)
    ((worker, taken),) = two.handle(Import(1, by(reply.state), new_world=False))
    assert (worker, taken) == (1, Taken(2))
    assert two.view() == one.view()
    assert two.held[0].unused == {"v"}
    for shard_ in (one, two):
        shard_.handle(push(2, 2, 99.0))  # repeated: already inside
        for worker in (1, 0):
            shard_.handle(push(worker, 2, 1.0, version=2))
    assert torch.equal(flat(one), flat(two))
    assert (two.version, two.staleness) == (one.version, one.staleness)
    assert one.staleness[1] == 1


def test_in_a_new_world_the_centre_stays_and_the_counts_begin_anew() -> None:
    one, two = shard(asynchronous()), shard(asynchronous())
    for sequence in range(3):
        one.handle(push(0, sequence))
    two.handle(Import(0, through_a_file(one.state()), new_world=True))
    assert torch.equal(flat(two), flat(one))
    assert (two.version, two.clocks, two.taken) == (3, {}, {})
    two.handle(push(0, 0, version=3))
    assert torch.equal(flat(two), ORIGIN - 4)
    assert dict(two.staleness) == {0: 2, 1: 1, 2: 1}


def test_in_a_new_world_the_counts_begin_anew_on_a_shard_that_was_used() -> None:
    made = shard(asynchronous())
    made.handle(push(0, 0))
    state = through_a_file(made.state())
    made.handle(push(0, 1))
    made.handle(Import(0, state, new_world=True))
    made.handle(push(0, 0, version=1))
    assert torch.equal(flat(made), ORIGIN - 2)


@pytest.mark.parametrize("make", [with_rule, with_adam])
def test_what_was_exported_does_not_change_when_the_shard_goes_on(make: Callable[[], Shard]) -> None:
    made = make()
    for worker in range(3):
        made.handle(push(worker, 0))
    exported = made.state()
    before = str(exported)
    for worker in range(3):
        made.handle(push(worker, 1, version=1))
    assert str(exported) == before


def test_who_rests_while_a_state_is_put_back_still_rests() -> None:
    """A worker may wait for all others before rank 0 has brought the state; it must not be forgotten."""
    made = shard(every_step(), workers=2)
    state = made.state()
    made.handle(Rest(1))
    made.handle(Import(0, state, False))
    assert made.resting == {1}
    made.handle(Rest(0))
    assert not made.resting, "both have come"
