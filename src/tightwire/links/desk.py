"""A machine and its door: many ask, one at a time is heard, and some wait until others have come.

    worker 0   ask ─▶ ┐ handle ─▶ no reply yet … waits
    worker 1   ask ─▶ ┘           handle ─▶ replies to 1 and to 0 ─▶ both go on

The machine is without I/O and without threads; this is the only place where it meets them. Whoever waits too long is
told for whom, and at once if all of those are known to be gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tightwire.algebra.errors import PeerLost, PeerTimeout
from tightwire.algebra.link import Awaits, Machine

_LOOK_EVERY_S = 0.25  # whether whoever waits is itself still there


class Desk:
    """One hosted machine. A worker asks one thing at a time; asking again forgets the reply to what came before."""

    lasts = False

    def __init__(self, name: str, machine: Machine) -> None:
        self.name = name
        self._machine = machine
        self._news = threading.Condition()
        self._replies: dict[int, Any] = {}
        self._gone: set[int] = set()
        self._closed = False

    def ask(
        self, rank: int, event: Any, timeout_s: float, left: Callable[[], bool] = lambda: False
    ) -> Any:  # fmt: skip
        """Hand the event to the machine and wait for its reply to this worker, unless the worker has ``left``."""
        with self._news:
            replies = self._machine.handle(event)  # what it refuses takes nobody's reply away
            self._replies.pop(rank, None)
            for worker, reply in replies:
                self._replies[worker] = reply
            self._news.notify_all()
            self._wait(rank, time.monotonic() + timeout_s, timeout_s, left)
            return self._replies.pop(rank)

    def mark_gone(self, rank: int) -> None:
        """A worker's process has ended without a goodbye."""
        with self._news:
            self._gone.add(rank)
            self._news.notify_all()

    def close(self) -> None:
        """Nobody is answered any more."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _wait(self, rank: int, deadline: float, timeout_s: float, left: Callable[[], bool]) -> None:
        while rank not in self._replies:
            if self._closed or left():
                raise PeerLost(f"{self.name} was closed while rank {rank} waited for its reply")
            awaited = self._awaited()
            if awaited and awaited <= self._gone:
                raise PeerLost(f"rank {rank} waits at {self.name} for {_ranks(awaited)}, gone without a goodbye")
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                missing = f", which waits for {_ranks(awaited)}" if awaited else ""
                raise PeerTimeout(
                    f"rank {rank} waited {timeout_s:g} s for a reply of {self.name}{missing} (exchange_timeout_s)"
                )
            self._news.wait(min(remaining, _LOOK_EVERY_S))

    def _awaited(self) -> set[int]:
        return set(self._machine.awaited()) if isinstance(self._machine, Awaits) else set()


def not_counted(name: str, event: Any, tx: int, rx: int) -> None:
    """Nobody wants to know what crossed a socket."""


def _ranks(which: set[int]) -> str:
    return f"rank{'s' * (len(which) > 1)} {', '.join(map(str, sorted(which)))}"
