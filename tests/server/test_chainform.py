"""Everything said in a chain comes out as it went in, and what is garbage is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.server.shards import flat, push, shard, shard_with_optimizer
from tightwire.algebra.errors import PayloadError
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.chain import (
    Ack,
    Beat,
    Buried,
    Copied,
    Elsewhere,
    Go,
    Have,
    Later,
    Letter,
    Member,
    Over,
    Seat,
    Sync,
    Told,
    View,
    Where,
)
from tightwire.server.chainform import ChainForm
from tightwire.server.events import Center, Peek, Taken
from tightwire.server.once import Once, Request, Response, Unknown

FORM = ChainForm()
A, B = Member("a", 1), Member("b", 2)
MESSAGES: list[Any] = [
    Request(0, 1, 7, Peek(0)), Request(0, 1, 7), Response(0, 1, 7, Taken(3)), Unknown(2), Ack(1, 2), Have(1, -1),
    Sync(2, 5, (Request(0, 1, 7, Peek(0)),)), Beat("x", A, 3, True, False), View("x", 3, (A, B)), Go("x", 3),
    Buried("x", A), Where(1, "x"), Elsewhere(1, 2), Later(1, (2, 3)), Letter("a", Ack(1, 2)), Told((Go("x", 3),)),
    Seat("room", "a", (("b", "there"),)), Letter("", Over()), Taken(4),
]  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_there_and_back(message: Any) -> None:
    again = FORM.unpack(*FORM.pack(message))
    assert again == message and type(again) is type(message)


def test_tensors_find_their_places_however_deep_they_lie() -> None:
    first, second = (Request(worker, 1, 0, push(worker, 0, float(worker))) for worker in (1, 2))
    again = FORM.unpack(*FORM.pack(Letter("a", Sync(2, 5, (first, second)))))
    for request, worker in zip(again.message.entries, (1, 2), strict=True):
        assert all(torch.equal(wire, torch.full_like(wire, worker)) for wire in request.event.wires.values())


@pytest.mark.parametrize("optimizer", [False, True])
def test_a_copy_goes_on_like_the_machine_itself(optimizer: bool) -> None:
    made = shard_with_optimizer(every_step(), workers=2) if optimizer else shard(every_step(), workers=2)
    once = Once(made)
    once.handle(Request(0, 1, 0, push(0, 0, 1.0)))  # waits for worker 1
    copied = FORM.unpack(*FORM.pack(FORM.copy(once)))
    assert isinstance(copied, Copied)
    twin = FORM.revive(copied)
    said, echoed = (machine.handle(Request(1, 1, 0, push(1, 0, 2.0))) for machine in (once, twin))
    assert [(to, response[:3]) for to, response in said] == [(to, response[:3]) for to, response in echoed]
    assert {to for to, _ in said} == {0, 1}, "who waited is answered by the copy too"
    assert torch.equal(flat(made), flat(twin.machine))  # type: ignore[arg-type]


def test_plain_events_look_as_they_do_without_chains() -> None:
    center = Center(3, {"w": torch.ones(2)})
    data, _ = FORM.pack(center)
    assert data["kind"] == "Center"
    assert FORM.reads(Request(0, 1, 2, Peek(0))) and not FORM.reads(Request(0, 1, 2, push(0, 0)))


def test_a_shard_is_described_as_ever_and_a_seat_as_a_seat() -> None:
    made = shard(asynchronous())
    assert torch.equal(flat(FORM.build(*FORM.describe(made))), flat(made))
    seat = Seat("room", "a", (("b", "there"),))
    assert FORM.build(*FORM.describe(seat)) == seat


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["$", "of", "$event"]), inner),
    max_leaves=8,
)


@given(st.sampled_from(["Request", "Forward", "Ack", "View", "Copied", "Beat", "Told", "Nothing"]), ODD)
def test_garbage_is_refused_unless_it_is_a_message(kind: str, fields: Any) -> None:
    with suppress(PayloadError):
        made = FORM.unpack({"$": kind, "of": fields if isinstance(fields, list) else [fields]}, [])
        assert type(made).__name__ == kind
        assert FORM.unpack(*FORM.pack(made)) == made


@pytest.mark.parametrize("fields", [[1], [1, 2, 3], [True, 2], ["1", 2], [None, 2], [1.5, 2]], ids=repr)
def test_fields_that_do_not_fit_are_refused(fields: list[Any]) -> None:
    with pytest.raises(PayloadError):
        FORM.unpack({"$": "Ack", "of": fields}, [])
