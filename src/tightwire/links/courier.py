"""Messages from server to server: in order for each receiver, never waited for, and lost when something is wrong.

    send(parcel, "s2")   ─▶ queue of s2 ─▶ its thread: call s2 ─▶ what s2 says at once ─▶ ``parcel.heard``

Whoever sends says it again after a while if it matters; what is still under way is then not sent twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from tightwire.algebra.errors import TightwireError

_PAUSE_S = 0.05  # after a failure
_IDLE_S = 0.5


class Calls(Protocol):
    """A connection to one receiver (`links.flight_client.Caller`)."""

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """One exchange."""
        ...

    def drop(self) -> None:
        """Let go of it."""
        ...


@dataclass(frozen=True)
class Parcel:
    """A message for a desk, which may take so long to get there; two with the same ``key`` say the same."""

    desk: str
    message: Any
    key: Hashable
    heard: Callable[[Any], None]
    timeout_s: float = 1.0


class Courier:
    """One thread for each receiver; ``connect`` opens a connection to one by its name, or raises."""

    def __init__(self, connect: Callable[[str], Calls]) -> None:
        self._connect = connect
        self._routes: dict[str, _Route] = {}
        self._lock = threading.Lock()

    def send(self, parcel: Parcel, to: str) -> None:
        """Have it sent, unless one that says the same is still under way to the same receiver."""
        with self._lock:
            route = self._routes.get(to)
            if route is None:
                route = self._routes[to] = _Route(to, self._connect)
        route.put(parcel)

    def close(self) -> None:
        """Nothing is sent any more."""
        with self._lock:
            for route in self._routes.values():
                route.close()


class _Route:
    """The way to one receiver."""

    def __init__(self, to: str, connect: Callable[[str], Calls]) -> None:
        self._to = to
        self._connect = connect
        self._calls: Calls | None = None
        self._queue: OrderedDict[tuple[str, Hashable], Parcel] = OrderedDict()
        self._news = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, name=f"courier to {to}", daemon=True).start()

    def put(self, parcel: Parcel) -> None:
        with self._news:
            if (parcel.desk, parcel.key) not in self._queue:
                self._queue[parcel.desk, parcel.key] = parcel
                self._news.notify()

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._queue and not self._closed:
                    self._news.wait(_IDLE_S)
                if self._closed:
                    break
                key, parcel = next(iter(self._queue.items()))
            reply = self._call(parcel)
            with self._news:
                self._queue.pop(key, None)
            if reply is not None:
                parcel.heard(reply)
        if self._calls is not None:
            self._calls.drop()

    def _call(self, parcel: Parcel) -> Any:
        """The reply, or None: then everything that was to go this way is lost."""
        try:
            if self._calls is None:
                self._calls = self._connect(self._to)
            return self._calls.ask(parcel.desk, parcel.message, parcel.timeout_s)
        except TightwireError:
            if self._calls is not None:
                self._calls.drop()
            self._calls = None
            with self._news:
                self._queue.clear()
                self._news.wait_for(lambda: self._closed, _PAUSE_S)
            return None
