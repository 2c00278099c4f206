"""Questions beside each other: all are under way before the first reply is waited for."""

from __future__ import annotations

import threading

import pytest

from tightwire.links.abreast import abreast


def test_all_are_under_way_at_once_and_replies_keep_their_order() -> None:
    meeting = threading.Barrier(3)

    def ask(number: int) -> int:
        meeting.wait(10.0)  # breaks unless all three have come
        return number

    assert [reply() for reply in abreast((lambda n=n: ask(n) for n in range(3)), [True] * 3)] == [0, 1, 2]  # type: ignore[misc]


def test_an_error_is_raised_where_the_reply_is_waited_for() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    first, second = abreast([lambda: 1, fail], [True, True])
    assert first() == 1
    with pytest.raises(ZeroDivisionError):
        second()


def test_what_is_here_is_asked_by_who_wants_the_reply() -> None:
    def who() -> str:
        return threading.current_thread().name

    def names(*afar: bool) -> list[bool]:
        return [reply() == who() for reply in abreast([who] * len(afar), afar)]

    assert names(True, False, True) == [False, True, False]
    assert names(True, False) == [True, True], "one alone needs no thread"
