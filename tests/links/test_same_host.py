"""Tensors through memory: the same results as through the socket, and no byte is overwritten that somebody needs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from tightwire.algebra.errors import PayloadError, UnknownMemory
from tightwire.links import flight_client
from tightwire.links.desk import Desk
from tightwire.links.flight import send
from tightwire.links.flight_client import Caller
from tightwire.links.frames import announce, expect
from tightwire.links.same_host import LEAST_NBYTES, Borrowed, Lender, Loan, answer
from tightwire.links.service import Service
from tightwire.server.events import Exported, Import
from tightwire.server.wireform import WireForm

LARGE = LEAST_NBYTES  # floats, four times what is worth it


def pair(borrowed: Borrowed, me: int = 1) -> tuple[Lender, list[bytes]]:
    offers: list[bytes] = []

    def offer(raw: bytes) -> bytes:
        offers.append(raw)
        return borrowed.take(raw)

    return Lender(me, offer), offers


def exchange(lender: Lender, borrowed: Borrowed, value: float, keep: list[Any] | None = None) -> torch.Tensor:
    """A worker says a tensor, the server doubles it."""
    said = [torch.full((LARGE,), value)]
    with lender.lend(said) as loan:
        assert loan is not None
        segment = borrowed.find(1, loan.segment.name)
        heard = segment.up.tensors(expect(announce(said)))
        if keep is not None:
            keep += heard
        back = [2 * heard[0]]
        del heard
        lender.learn(back)
        told, table = answer(segment, back, announce(back)), announce(back)
        read = loan.read(json.loads(json.dumps(told)), table)
        return back[0] if read is None else read[0]


def test_the_second_call_uses_the_segment_of_the_first_and_room_for_the_reply() -> None:
    borrowed = Borrowed()
    lender, offers = pair(borrowed)
    for value in (1.0, 2.0, 3.0, 4.0):
        assert exchange(lender, borrowed, value).equal(torch.full((LARGE,), 2 * value))
    assert len(offers) == 2, "one before a reply was seen, one with room for it"
    assert len(borrowed) == 1, "the first was given up"


def test_a_reply_that_is_kept_is_not_overwritten() -> None:
    borrowed = Borrowed()
    lender, _ = pair(borrowed)
    replies = [exchange(lender, borrowed, float(value)) for value in range(4)]
    assert [float(reply[-1]) for reply in replies] == [0.0, 2.0, 4.0, 6.0]
    assert len(borrowed) == 3
    del replies
    exchange(lender, borrowed, 9.0)
    assert len(borrowed) == 3


def test_what_the_server_keeps_is_not_overwritten() -> None:
    borrowed, kept = Borrowed(), list[Any]()
    lender, offers = pair(borrowed)
    for value in range(12):
        try:
            exchange(lender, borrowed, float(value), kept)
        except AssertionError:
            break  # a server that keeps everything is spoken to through the socket
    assert [float(tensor[0]) for tensor in kept] == [float(value) for value in range(len(kept))]
    assert 8 <= len(kept) == len(offers) < 12


def test_a_call_that_broke_off_leaves_its_segment_to_the_server() -> None:
    borrowed = Borrowed()
    lender, offers = pair(borrowed)
    found: list[Any] = []

    def breaks_off() -> None:
        with lender.lend([torch.ones(LARGE)]) as loan:
            assert loan is not None
            found.append(borrowed.find(1, loan.segment.name))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaks_off()
    exchange(lender, borrowed, 5.0)
    assert found[0].up.tensors(expect([["float32", [LARGE]]]))[0].equal(torch.ones(LARGE))
    assert len(offers) == 2 and len(borrowed) == 1


def test_small_messages_and_refused_offers_take_the_socket() -> None:
    asked: list[bytes] = []

    def refuse(raw: bytes) -> bytes:
        asked.append(raw)
        return b"no: another host"

    lender = Lender(1, refuse)
    with lender.lend([torch.ones(4)]) as loan:
        assert loan is None and not asked
    for _ in range(3):
        with lender.lend([torch.ones(LARGE)]) as loan:
            assert loan is None
    assert len(asked) == 1
    with Lender(1, None).lend([torch.ones(LARGE)]) as loan:
        assert loan is None


def test_memory_of_another_rank_is_not_found() -> None:
    borrowed = Borrowed()
    lender, offers = pair(borrowed)
    exchange(lender, borrowed, 1.0)
    name = json.loads(offers[0])["name"]
    for rank, asked in ((2, name), (1, "0" * 64), (1, None)):
        with pytest.raises(UnknownMemory):
            borrowed.find(rank, asked)
    borrowed.forget(2)
    assert len(borrowed) == 1
    borrowed.forget(1)
    assert len(borrowed) == 0


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"\xff", b'{"from": 1}'])
def test_offers_that_are_none_are_answered(raw: bytes) -> None:
    assert Borrowed().take(raw).startswith(b"no: ")


def test_a_worker_cannot_offer_for_ever() -> None:
    borrowed = Borrowed()
    for _ in range(70):
        with Lender(1, borrowed.take).lend([torch.ones(LARGE)]):
            pass
    assert len(borrowed) == 64


@pytest.mark.parametrize("told", [None, {}, {"down": "yes", "kept": 0}])
def test_a_reply_must_say_what_became_of_the_memory(told: Any) -> None:
    borrowed = Borrowed()
    lender, _ = pair(borrowed)
    with lender.lend([torch.ones(LARGE)]) as loan:
        assert isinstance(loan, Loan)
        with pytest.raises(PayloadError, match="does not say"):
            loan.read(told, [])


# ── behind Flight ─────────────────────────────────────────────────────────────────────────────────────────────────


class Adder:
    """Adds up what it is told, and replies with the sum."""

    def __init__(self) -> None:
        self.sums: dict[str, torch.Tensor] = {}

    def handle(self, event: Import) -> list[tuple[int, Exported]]:
        for name, value in event.state.items():
            self.sums[name] = self.sums.get(name, torch.zeros_like(value)) + value
        return [(event.worker, Exported({name: value.clone() for name, value in self.sums.items()}))]


@contextmanager
def adding(*, elsewhere: bool = False) -> Iterator[tuple[Service, Caller]]:
    service = Service(WireForm())
    place = service.add(Desk("adder", Adder()))
    caller = Caller(replace(place, host="elsewhere") if elsewhere else place, host=0, me=1, form=WireForm())
    try:
        caller.come(5.0)
        yield service, caller
    finally:
        caller.leave()
        service.close()


def said(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = {"large": (300, 500 + 100 * seed), "odd": (7,), "none": (0, 3), "scalar": ()}
    return {f"{name} {size}": torch.randn(size, generator=generator) for name, size in sizes.items()}


def test_through_memory_and_through_the_socket_are_the_same_bit_for_bit() -> None:
    with adding() as (near, beside), adding(elsewhere=True) as (far, away):
        for seed in (0, 1, 1, 0, 2, 0):
            told = said(seed)
            one, other = (caller.ask("adder", Import(1, told, True), 5.0).state for caller in (beside, away))
            assert one.keys() == other.keys()
            assert all(one[name].equal(other[name]) for name in one)
            del one, other  # so that the next call finds the memory free
        assert len(near.borrowed) == 1 and len(far.borrowed) == 0


def test_tensors_are_counted_whichever_way_they_went() -> None:
    counts: list[list[tuple[int, int]]] = []
    for elsewhere in (False, True):
        seen: list[tuple[int, int]] = []
        with adding(elsewhere=elsewhere) as (service, caller):
            caller.carried = lambda name, event, tx, rx, seen=seen: seen.append((tx, rx))  # type: ignore[misc]
            service.carried = lambda name, event, tx, rx, seen=seen: seen.append((rx, tx))  # type: ignore[misc]
            for _ in range(3):
                caller.ask("adder", Import(1, said(1), True), 5.0)
        assert seen[0::2] == seen[1::2]
        counts.append(seen)
    assert all(0 < a - b < 150 for near, far in zip(*counts, strict=True) for a, b in zip(near, far, strict=True)), (
        "the name of the memory, and what became of it"
    )


def test_a_server_that_has_forgotten_is_told_again() -> None:
    with adding() as (service, caller):
        for _ in range(2):
            caller.ask("adder", Import(1, said(1), True), 5.0)
        service.borrowed.forget(1)
        total = caller.ask("adder", Import(1, said(1), True), 5.0).state
        assert all(torch.allclose(total[name], 3 * value) for name, value in said(1).items())
        assert len(service.borrowed) == 1


def test_a_question_is_heard_to_its_end_before_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flight drops an answer that comes while the question is still being written."""
    answered: list[int] = []
    handle = Adder.handle
    before: list[int] = []

    def counting(adder: Adder, event: Import) -> list[tuple[int, Exported]]:
        answered.append(1)
        return handle(adder, event)

    def slowly(writer: Any, tensors: Any) -> None:
        time.sleep(0.05)
        before.append(len(answered))
        send(writer, tensors)

    monkeypatch.setattr(Adder, "handle", counting)
    monkeypatch.setattr(flight_client, "send", slowly)
    with adding() as (service, caller):
        for _ in range(3):
            caller.ask("adder", Import(1, said(1), True), 5.0)
        assert len(service.borrowed) == 1
    assert before == [0, 1, 2]


def test_nothing_is_left_when_a_worker_leaves() -> None:
    with adding() as (service, caller):
        caller.ask("adder", Import(1, said(1), True), 5.0)
        assert len(service.borrowed) == 1
    assert len(service.borrowed) == 0
    with open("/proc/self/maps") as lines:
        assert "memfd:tightwire" not in lines.read()
