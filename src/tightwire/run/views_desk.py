"""The views of a run, asked by its servers and workers: in the process of rank 0, where the rendezvous is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tightwire.algebra.errors import PayloadError
from tightwire.links.access import is_address
from tightwire.server.chain import Beat, Departs, Joins, Letter, Told, Where
from tightwire.server.replica import VIEWS
from tightwire.server.views import Views

_TICK_S = 0.1
_MOST_JOINED = 64


class ViewsDesk:
    """`algebra.link.Asked`. Servers learn of new views with the answer to their next heartbeat."""

    name = VIEWS
    lasts = False

    def __init__(self, views: Views) -> None:
        self._views = views
        self.joined: dict[str, float] = {}  # servers that offered themselves, and when they last did
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Look from now on who lives."""
        threading.Thread(target=self._run, name="views", daemon=True).start()

    def look(self, see: Callable[[Views], Any]) -> Any:
        """Read or change the views while nothing else does."""
        with self._lock:
            return see(self._views)

    def stays(self, server: str) -> None:
        """It wanted to leave, and is back."""
        self.look(lambda views: views.leaving.discard(server))

    def ask(self, rank: int, event: Any, timeout_s: float, left: Callable[[], bool] = lambda: False) -> Any:
        """A heartbeat, or a worker that wants to know where to go. Nobody waits here."""
        with self._lock:
            match event:
                case Letter(sender, Beat() as beat):
                    effects = self._views.handle(beat, time.monotonic())
                    return Told(tuple(message for to, message in effects if to == sender))
                case Letter(sender, Departs()):
                    self._views.leaving.add(sender)
                    return Told()
                case Letter(_, Joins(where)) if is_address(where):
                    if where in self.joined or len(self.joined) < _MOST_JOINED:
                        self.joined[where] = time.monotonic()
                    return Told()
                case Where():
                    return self._views.handle(event, time.monotonic())[0][1]
        raise PayloadError(f"the views take heartbeats, offers and questions, and {type(event).__name__} is none")

    def mark_gone(self, rank: int) -> None:
        """Workers are not in views."""

    def close(self) -> None:
        """Decide nothing more."""
        self._closed.set()

    def _run(self) -> None:
        last_s, not_before_s = time.monotonic(), 0.0
        while not self._closed.wait(_TICK_S):
            now_s = time.monotonic()
            if now_s - last_s > self._views.patience_s / 2:  # we were stopped: others were not silent, we were deaf
                not_before_s = now_s + self._views.patience_s
            last_s = now_s
            if now_s >= not_before_s:
                with self._lock:
                    self._views.tick(now_s)
