"""A worker's way to shards that several servers keep: to the head, and to the next head when that one is gone.

    request 17 ─▶ s0 … nothing ─▶ where is the shard? view 4: s1, s2 ─▶ request 17 again ─▶ s1 ─▶ reply

The request keeps its number however often it is sent, so it is applied once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from tightwire.algebra.errors import LinkError, PeerLost, PeerTimeout, UnknownMachine
from tightwire.links.courier import Calls
from tightwire.run.chain_desk import SLOWEST_NBYTES_PER_S, address, nbytes_of
from tightwire.server.chain import Later, Lost, View, Where
from tightwire.server.once import Request, Response, Unknown
from tightwire.server.replica import NOBODY, VIEWS

_PATIENCE_S = 0.7  # with one server, before somebody else is asked
_PAUSE_S = 0.05


class Failover:
    """One worker's requests. ``connect`` opens a connection to a server, or to ``views``, by name."""

    def __init__(self, me: int, life: int, connect: Callable[[str], Calls], *, room: str = "") -> None:
        self._me = me
        self._room = room
        self._life = life
        self._numbers = count()
        self._connect = connect
        self._calls: dict[tuple[str, str], Calls] = {}  # of each shard its own: they are asked beside each other
        self._heads: dict[str, str] = {}
        self.retried = 0  # how often a request had to be sent again

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """The shard's reply, from whichever server leads its chain by then."""
        request = Request(self._me, self._life, next(self._numbers), event)
        deadline = time.monotonic() + timeout_s
        send, awaited = request, tuple[int, ...]()
        patience_s = _PATIENCE_S + nbytes_of(request) / SLOWEST_NBYTES_PER_S
        while True:
            asked_s = time.monotonic()
            match self._try(name, send, min(patience_s, timeout_s)):
                case Response() as answer if answer[:3] == request[:3]:
                    return answer.reply
                case Later(_, awaited):
                    send = request._replace(event=None)  # it is there
                case Lost():
                    raise PeerLost(f"rank {self._me} waits for {name}, and all servers that kept it have ended")
                case Unknown():
                    send = request
                case _:  # nobody there, or not the head
                    self._heads.pop(name, None)
                    send = request
                    if time.monotonic() - asked_s >= patience_s:
                        patience_s *= 2  # perhaps it was only the size of the reply
                    time.sleep(_PAUSE_S)
            self.retried += 1
            if time.monotonic() > deadline:
                self._give_up(name, awaited, timeout_s)

    def follow(self) -> None:
        """Be where shards are led by now, although there is nothing to ask: there it is said who is slow."""
        for name in list(self._heads):
            views = self._calls.get((name, VIEWS))
            with suppress(LinkError):
                view = NOBODY if views is None else views.ask(VIEWS, Where(self._me, name), _PATIENCE_S)
                if isinstance(view, View) and view.chain:
                    self._reach(name, view.chain[0].server)

    def close(self) -> None:
        """Let go of all connections."""
        for calls in self._calls.values():
            calls.drop()
        self._calls = {}

    def _try(self, name: str, request: Request, timeout_s: float) -> Any:
        """What the head says, or the views, if it is lost; None if nobody says anything."""
        try:
            if name not in self._heads:
                view = self._call(name, VIEWS, VIEWS, Where(self._me, name), _PATIENCE_S)
                if isinstance(view, Lost) or not view.chain:
                    return view
                self._heads[name] = view.chain[0].server
            return self._call(name, self._heads[name], address(self._room, name), request, timeout_s)
        except (PeerLost, PeerTimeout, UnknownMachine):
            return None

    def _call(self, name: str, server: str, desk: str, message: Any, timeout_s: float) -> Any:
        try:
            return self._reach(name, server).ask(desk, message, timeout_s)
        except LinkError:
            if (calls := self._calls.pop((name, server), None)) is not None:
                calls.drop()
            raise

    def _reach(self, name: str, server: str) -> Calls:
        calls = self._calls.get((name, server))
        if calls is None:
            made = self._connect(server)
            calls = self._calls.setdefault((name, server), made)
            if calls is not made:
                made.drop()  # who asks and who follows came at the same time
        return calls

    def _give_up(self, name: str, awaited: tuple[int, ...], timeout_s: float) -> None:
        missing = f", which waits for ranks {', '.join(map(str, awaited))}" if awaited else ""
        raise PeerTimeout(f"rank {self._me} waited {timeout_s:g} s for a reply of {name}{missing} (exchange_timeout_s)")
