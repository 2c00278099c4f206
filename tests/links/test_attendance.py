"""Who is slow and who is silent, by name and in time; limits on what one connection has under way."""

from __future__ import annotations

import pytest

from tightwire.algebra.errors import AccessError, PayloadError, UnknownMemory
from tightwire.links.attendance import SILENT_S, Attendance, Guest
from tightwire.links.guard import Guard
from tightwire.links.limits import Limits


def guests(workers: int, run: str = "mnist") -> list[Guest]:
    return [Guest(run, "room", rank) for rank in range(workers)]


def test_a_silent_worker_is_named_once_and_heard_again_once() -> None:
    here, (zero, one) = Attendance(), guests(2)
    for guest in (zero, one):
        here.came(guest, 0.0)
    here.heard(zero, 9.0)
    assert here.news(SILENT_S + 0.5) == ["rank 1 of mnist has been silent for 10 s"]
    here.heard(zero, SILENT_S + 0.6)
    assert here.news(SILENT_S + 1.0) == []
    here.heard(one, SILENT_S + 2.0)
    assert here.news(SILENT_S + 2.5) == ["rank 1 of mnist is heard again"]
    assert here.noticed("mnist") == {"silent": [1]} and here.noticed("other") == {}


def test_a_worker_on_two_connections_is_here_until_both_are_gone() -> None:
    here, (zero,) = Attendance(), guests(1)
    here.came(zero, 0.0)
    here.heard(zero, 1.0, asked=3)
    here.came(zero, 2.0)
    assert here.report("mnist", 2.0)[0]["asked"] == 3, "it is the same worker"
    assert not here.broke(zero) and here.here() == [zero]
    assert here.broke(zero)


def test_a_slow_worker_is_named_and_one_in_lockstep_is_not() -> None:
    here, everybody = Attendance(), guests(4)
    for guest in everybody:
        here.came(guest, 0.0)
    for _ in range(20):
        for guest in everybody[:3]:
            here.heard(guest, 5.0, asked=1)
    for _ in range(5):
        here.heard(everybody[3], 5.0, asked=1)
    assert here.news(5.0) == ["rank 3 of mnist is slow: 1 questions a second where others ask 4"]
    assert [worker["state"] for worker in here.report("mnist", 5.0)] == ["well"] * 3 + ["slow"]
    assert here.report("other", 5.0) == []


def test_nobody_is_slow_before_much_was_asked() -> None:
    here, everybody = Attendance(), guests(3)
    for guest in everybody:
        here.came(guest, 0.0)
    for guest in everybody[:2]:
        here.heard(guest, 1.0, asked=5)
    assert here.news(1.0) == []


def test_runs_and_rooms_are_kept_apart() -> None:
    here = Attendance()
    old, new, other = Guest("a", "1", 0), Guest("a", "2", 0), Guest("b", "1", 0)
    for guest in (old, new, other):
        here.came(guest, 0.0)
    assert here.here("a", "1") == [old] and here.here("a") == [old, new] and len(here.here()) == 3
    here.heard(new, 100.0)
    assert here.alive(here.here("a"), 101.0) == [new]
    assert here.left(old) and not here.left(old)


def test_a_connection_has_so_much_under_way_and_not_more() -> None:
    guard = Guard(Limits(client_streams=2, client_nbytes=100))
    with guard.stream("a"), guard.stream("a"), guard.stream("b"):
        with pytest.raises(PayloadError, match="3 calls at a time; at most 2") as caught, guard.stream("a"):
            pass
        guard.refuse(caught.value)
    with guard.stream("a"), guard.memory("a", 60), guard.memory("b", 60):
        with pytest.raises(PayloadError, match="120 bytes under way; at most 100"), guard.memory("a", 60):
            pass
        with guard.memory("a", 40):
            pass
    guard.refuse(AccessError("no"))
    guard.refuse(UnknownMemory("asked again by itself"))
    assert guard.refused == {"limit": 1, "token": 1}
