"""A machine's door: replies find their worker, and whoever waits is told for whom."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tightwire.algebra.errors import PayloadError, PeerLost, PeerTimeout
from tightwire.links.desk import Desk


class Pairs:
    """Replies to two workers once both have come."""

    def __init__(self) -> None:
        self.here: dict[int, Any] = {}

    def handle(self, event: tuple[int, Any]) -> list[tuple[int, Any]]:
        worker, value = event
        if value == "bad":
            raise PayloadError("bad")
        self.here[worker] = value
        if len(self.here) < 2:
            return []
        replies = [(worker, sum(self.here.values())) for worker in self.here]
        self.here = {}
        return replies

    def awaited(self) -> tuple[int, ...]:
        return tuple({0, 1} - set(self.here))


def test_a_reply_that_another_brings_about_reaches_who_waits() -> None:
    desk, got = Desk("pairs", Pairs()), {}
    first = threading.Thread(target=lambda: got.update({0: desk.ask(0, (0, 10), 5.0)}))
    first.start()
    while not desk._machine.here:  # type: ignore[attr-defined]
        time.sleep(0.001)
    assert desk.ask(1, (1, 5), 5.0) == 15
    first.join(5.0)
    assert got == {0: 15}


def test_waiting_in_vain_names_who_is_awaited() -> None:
    with pytest.raises(PeerTimeout, match=r"rank 0 waited 0\.05 s for a reply of pairs, which waits for rank 1"):
        Desk("pairs", Pairs()).ask(0, (0, 1), 0.05)


def test_waiting_for_somebody_gone_ends_at_once() -> None:
    desk = Desk("pairs", Pairs())
    desk.mark_gone(1)
    begin = time.monotonic()
    with pytest.raises(PeerLost, match="rank 0 waits at pairs for rank 1, gone without a goodbye"):
        desk.ask(0, (0, 1), 30.0)
    assert time.monotonic() - begin < 5.0


def test_somebody_gone_does_not_disturb_who_need_not_wait() -> None:
    desk = Desk("pairs", Pairs())
    desk.mark_gone(7)
    with pytest.raises(PeerTimeout):
        desk.ask(0, (0, 1), 0.05)
    assert desk.ask(1, (1, 1), 1.0) == 2


def test_a_reply_to_what_nobody_waits_for_any_more_is_not_the_reply_to_the_next() -> None:
    desk = Desk("pairs", Pairs())
    with pytest.raises(PeerTimeout):
        desk.ask(0, (0, 1), 0.01)
    assert desk.ask(1, (1, 1), 1.0) == 2  # also a reply to 0, too late
    with pytest.raises(PeerTimeout):
        desk.ask(0, (0, 100), 0.01)
    assert desk.ask(1, (1, 1), 1.0) == 101


def test_closing_tells_who_waits_and_errors_reach_who_asked() -> None:
    desk = Desk("pairs", Pairs())
    threading.Timer(0.05, desk.close).start()
    with pytest.raises(PeerLost, match="pairs was closed while rank 0 waited"):
        desk.ask(0, (0, 1), 30.0)
    with pytest.raises(PayloadError, match="bad"):
        Desk("pairs", Pairs()).ask(0, (0, "bad"), 1.0)


def test_what_is_refused_takes_nobodys_reply_away() -> None:
    """Who speaks in a worker's name and says nonsense must not make it lose what it waits for."""
    refused = threading.Event()

    class Machine:
        def handle(self, event: str) -> list[tuple[int, str]]:
            if event == "nonsense":
                refused.set()
                raise PayloadError("nonsense")
            return [(0, "late")] if event == "late" else [(1, "now")] if event == "now" else []

    desk = Desk("shard", Machine())
    got: list[str] = []
    waiting = threading.Thread(target=lambda: got.append(desk.ask(0, "question", 10.0)))
    waiting.start()
    time.sleep(0.05)
    with desk._news:  # so that the reply lies there when the nonsense comes
        desk._replies[0] = "late"
        with pytest.raises(PayloadError):
            desk.ask(0, "nonsense", 1.0)
    waiting.join(5.0)
    assert got == ["late"] and refused.is_set()
