"""A request is handled once, and answered as often as it is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.server.shards import SUM, flat, push, shard
from tightwire.algebra.errors import PayloadError
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.events import Center, Enter, Export, Exported, Pull, Taken
from tightwire.server.once import Once, Request, Response, Unknown
from tightwire.server.tally import Mark, Tally


def ask(once: Once, worker: int, number: int, event: Any = None, life: int = 1) -> list[Any]:
    return [response for _, response in once.handle(Request(worker, life, number, event))]


def test_a_repeated_request_is_answered_and_not_handled() -> None:
    once = Once(Tally())
    first = ask(once, 0, 0, Mark(0, 0))
    assert first == ask(once, 0, 0, Mark(0, 0)) == ask(once, 0, 0) == [Response(0, 1, 0, 0)]
    assert once.machine.marks == {Mark(0, 0): 1}  # type: ignore[attr-defined]


def test_what_is_older_than_the_last_request_is_nobodys_any_more() -> None:
    once = Once(Tally())
    ask(once, 0, 0, Mark(0, 0))
    ask(once, 0, 1, Mark(0, 1))
    assert ask(once, 0, 0, Mark(0, 0)) == []
    assert ask(once, 0, 9, Mark(0, 9), life=0) == [], "an earlier life of the worker"
    assert once.machine.marks == {Mark(0, 0): 1, Mark(0, 1): 1}  # type: ignore[attr-defined]


def test_a_worker_that_starts_anew_counts_anew() -> None:
    once = Once(Tally())
    ask(once, 0, 7, Mark(0, 7))
    assert ask(once, 0, 0, Mark(0, 8), life=2) == [Response(0, 2, 0, 8)]


def test_a_reply_that_was_never_asked_for_cannot_be_given_again() -> None:
    assert ask(Once(Tally()), 3, 0) == [Unknown(3)]


def test_who_waits_is_answered_when_the_others_come_under_its_own_number() -> None:
    once = Once(Tally((0, 1)))
    assert ask(once, 0, 5, Mark(0, 0)) == []
    assert ask(once, 0, 5, Mark(0, 0)) == [], "still waiting"
    assert sorted(ask(once, 1, 2, Mark(1, 0))) == [Response(0, 1, 5, 0), Response(1, 1, 2, 0)]
    assert ask(once, 0, 5) == [Response(0, 1, 5, 0)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=40))
def test_whatever_comes_however_often_is_counted_once(asked: list[tuple[int, int]]) -> None:
    once = Once(Tally())
    for worker, number in asked:
        ask(once, worker, number, Mark(worker, number))
    assert set(once.machine.marks.values()) <= {1}  # type: ignore[attr-defined]


def test_what_a_shard_refuses_leaves_no_trace() -> None:
    once = Once(shard(asynchronous(), workers=1))
    with pytest.raises(PayloadError):
        ask(once, 0, 0, replace(push(0, 0), wires={}))
    assert once.sessions == {}
    (answer,) = ask(once, 0, 0, push(0, 0))
    assert isinstance(answer.reply, Center)


def test_a_shard_gives_its_centre_again_without_having_kept_a_copy() -> None:
    made = shard(asynchronous(), workers=2)
    once = Once(made)
    (first,) = ask(once, 0, 0, push(0, 0))
    ask(once, 1, 0, push(1, 0))
    (again,) = ask(once, 0, 0)
    assert once.sessions[0].kept.wires == {}
    assert (first.reply.version, again.reply.version, made.version) == (1, 2, 2)
    assert torch.equal(torch.cat(list(again.reply.wires.values())), flat(made)), "the centre as it is now"


def test_the_centre_before_a_push_is_the_same_when_asked_for_again() -> None:
    once = Once(shard(asynchronous(), workers=2))
    (first,) = ask(once, 0, 0, push(0, 0, looks="before"))
    ask(once, 1, 0, push(1, 0, looks="before"))
    (again,) = ask(once, 0, 0)
    assert all(torch.equal(first.reply.wires[label], again.reply.wires[label]) for label in first.reply.wires)
    (pulled,) = ask(once, 0, 1, Pull(0, push(0, 1).meta))
    assert not torch.equal(pulled.reply.wires["first"], first.reply.wires["first"]), "a pull wants the centre of now"


def test_other_replies_are_given_again_too() -> None:
    once = Once(shard(every_step(), SUM, workers=1))
    assert ask(once, 0, 0, push(0, 0, pull=False)) == ask(once, 0, 0) == [Response(0, 1, 0, Taken(1))]
    (exported,) = ask(once, 0, 1, Export(0))
    (again,) = ask(once, 0, 1)
    assert isinstance(again.reply, Exported) and again.reply.state["version"] == exported.reply.state["version"]
    assert once.sessions[0].kept == Exported({})
    assert isinstance(ask(once, 5, 0, Enter(5))[0].reply, Center)
