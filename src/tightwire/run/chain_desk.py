"""A server's place in the chain of a shard: where the machine without I/O meets threads, sockets and a clock.

worker      Request ─▶ replica ─▶ waits here until the chain holds it ─▶ Response, or Later
server      Letter  ─▶ replica ─▶ what it says to the sender goes back at once, the rest by courier
every tick  replica.tick ─▶ heartbeats, and what may have been lost
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tightwire.algebra.errors import PayloadError, PeerLost
from tightwire.algebra.link import Awaits
from tightwire.links.courier import Courier, Parcel
from tightwire.server.chain import (
    Ack,
    Copied,
    Departs,
    Elsewhere,
    Forward,
    Have,
    Joins,
    Later,
    Letter,
    Over,
    Sync,
    Told,
)
from tightwire.server.events import Push
from tightwire.server.once import Request, Response, Unknown
from tightwire.server.replica import VIEWS, Effects, Replica

_LOOK_EVERY_S = 0.25
_LETTER_S = 1.0
SLOWEST_NBYTES_PER_S = 10e6
"""On a wire that is slower than this, large messages are given up before they have arrived."""


class ChainDesk:
    """One shard at one server; `algebra.link.Asked`."""

    lasts = True  # rank 0 says when it is over; workers come and go with the head

    def __init__(self, replica: Replica, courier: Courier, *, room: str = "") -> None:
        self.name = replica.shard
        self._address = address(room, replica.shard)
        self._replica = replica
        self._courier = courier
        self._news = threading.Condition()
        self._answers: dict[int, Response | Unknown | Elsewhere] = {}
        self._closed = False
        self.heard_s = time.monotonic()  # when the views last answered

    @property
    def closed(self) -> bool:
        """Whether nobody is answered any more."""
        return self._closed

    @property
    def replica(self) -> Replica:
        """The machine, for who only looks."""
        return self._replica

    def report(self) -> dict[str, Any]:
        """Where this copy stands."""
        with self._news:
            replica = self._replica
            return {
                "shard": self.name,
                "server": replica.me.server,
                "life": replica.me.life,
                "view": replica.view.number,
                "chain": [list(member) for member in replica.view.chain],
                "caught_up": replica.stands and replica.caught_up == replica.view.number,
                "entries": replica.index,
            }

    def ask(self, rank: int, event: Any, timeout_s: float, left: Callable[[], bool] = lambda: False) -> Any:
        """A worker's request waits for its reply; a server's letter does not."""
        match event:
            case Request():
                return self._answer(event, time.monotonic() + timeout_s, left)
            case Letter(_, Over()):
                self.close()
                return Told()
            case Letter(sender, (Forward() | Ack() | Have() | Sync()) as message):  # views speak only when asked
                return Told(tuple(self._hear(message, sender)))
        raise PayloadError(f"a chain of servers takes requests and letters, and {type(event).__name__} is neither")

    def told(self, reply: Any) -> None:
        """What another server, or the views, said at once to a letter."""
        if isinstance(reply, Told):
            for message in reply.messages:
                self._hear(message, None)

    def _told_by_views(self, reply: Any) -> None:
        self.heard_s = time.monotonic()
        self.told(reply)

    def tick(self) -> None:
        """Time has passed. A heartbeat says that the process lives, however busy the machine is."""
        if self._closed:
            return
        self._send(*self._replica.beat())
        if self._news.acquire(blocking=False):
            try:
                self._act(self._replica.tick(), None)
            finally:
                self._news.release()

    def introduce(self, where: str) -> None:
        """Tell the views of another server that offers itself."""
        self._send(VIEWS, Joins(where))

    def depart(self) -> bool:
        """Tell the views that this server will end; True once nothing here is needed by others any more."""
        self._send(VIEWS, Departs())
        return self._closed or not self._replica.needed

    def mark_gone(self, rank: int) -> None:
        """A worker that broke off here may only have gone to another head."""

    def close(self) -> None:
        """Nobody is answered any more."""
        with self._news:
            self._closed = True
            self._replica.machine = None  # nothing of it is needed any more
            self._news.notify_all()

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, message: Any, sender: str | None) -> list[Any]:
        with self._news:
            return [] if self._closed else self._act(self._replica.handle(message), sender)

    def _answer(self, request: Request, deadline: float, left: Callable[[], bool]) -> Any:
        worker = request.worker
        with self._news:
            self._answers.pop(worker, None)
            self._act(self._replica.handle(request), None)
            while True:
                answer = self._answers.get(worker)
                if answer is not None and not (isinstance(answer, Response) and answer[:3] != request[:3]):
                    return self._answers.pop(worker)
                if self._closed or left():
                    raise PeerLost(f"{self.name} was closed while rank {worker} waited for its reply")
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return Later(worker, self._awaited())
                self._news.wait(min(remaining, _LOOK_EVERY_S))

    def _act(self, effects: Effects, sender: str | None) -> list[Any]:
        """Do what the machine wants; returns what it says to the sender."""
        said = []
        for to, message in effects:
            if isinstance(to, int):
                self._answers[to] = message
                self._news.notify_all()
            elif to == sender and not isinstance(message, Sync):  # who waits for an answer waits for a small one
                said.append(message)
            else:
                self._send(to, message)
        return said

    def _send(self, to: str, message: Any) -> None:
        desk, heard = (VIEWS, self._told_by_views) if to == VIEWS else (self._address, self.told)
        timeout_s = _LETTER_S + nbytes_of(message) / SLOWEST_NBYTES_PER_S
        letter = Letter(self._replica.me.server, message)
        self._courier.send(Parcel(desk, letter, (self.name, _key(message)), heard, timeout_s), to)

    def _awaited(self) -> tuple[int, ...]:
        once = self._replica.machine
        return once.machine.awaited() if once is not None and isinstance(once.machine, Awaits) else ()


def address(room: str, shard: str) -> str:
    """What a shard's desk is called at a server."""
    return f"{room}/{shard}" if room else shard


def nbytes_of(message: Any) -> int:
    """About how large a message is."""
    match message:
        case Forward(_, _, request) | (Request() as request):
            wires = request.event.wires if isinstance(request.event, Push) else {}
            return sum(wire.nbytes for wire in wires.values())
        case Sync(_, _, entries, state):
            tensors = state.tensors if isinstance(state, Copied) else ()
            return sum(tensor.nbytes for tensor in tensors) + sum(map(nbytes_of, entries))
        case _:
            return 0


def _key(message: Any) -> Any:
    """What makes two messages the same: entries and states are large, and are not sent while they are being sent."""
    match message:
        case Forward(view, place):
            return "Forward", view, place
        case Sync(view):
            return "Sync", view
        case _:
            return message
