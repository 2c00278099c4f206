"""What one process hosts for others: its desks, its guests, and what it refused.

A worker's own process keeps the desks of one run, which is the only one it lets in. A process that stands alone keeps
desks of many: the token of a call says of which run it is, and no call reaches another's. Each attempt of a run to
train is a room of its own, so that late calls of a dead attempt find nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tightwire.algebra.errors import AccessError, AlreadyOpen, PayloadError, UnknownMachine
from tightwire.algebra.link import Asked, Carried, Describes, Form, Machine
from tightwire.links.access import this_host
from tightwire.links.attendance import Attendance, Guest
from tightwire.links.bouncer import Bouncer
from tightwire.links.desk import Desk, not_counted
from tightwire.links.door import LOOPBACK, Door
from tightwire.links.flight import Place
from tightwire.links.guard import Guard
from tightwire.links.same_host import Borrowed
from tightwire.links.tokens import Token, fresh_token

if TYPE_CHECKING:
    from tightwire.links.flight_server import FlightServer

THROW_AWAY = "tightwire"  # the name in a certificate that the run made for itself (`links.certificates`)
_GOODBYE_EVERY_S = 0.01
_LOOK_EVERY_S = 0.5
_END_S = 2.0
MakeDesk = Callable[[str, Machine], Asked]


@runtime_checkable
class Introduces(Protocol):
    """A desk whose machine other servers may keep too."""

    def introduce(self, where: str) -> None:
        """Tell of a server that offers itself."""
        ...


class Service:
    """Desks by their full names, and guests. Opens with the first desk; without a ``door``, on the loopback."""

    def __init__(self, form: Form, door: Door | None = None) -> None:
        self.form = form
        self.door = door or Door(LOOPBACK, (fresh_token(""),))
        self.desks: dict[str, Asked] = {}
        self.make_desk: MakeDesk = Desk
        self.carried: Carried = not_counted
        self.borrowed = Borrowed()
        self.attendance = Attendance()
        self.guard = Guard(self.door.limits)
        self.closed = threading.Event()
        self.news: Callable[[str], None] = _unheard  # is told who is slow or silent
        self._in_vain: set[tuple[str, str]] = set()  # offers to runs whose shards do not move
        self._lock = threading.Lock()
        self._server: FlightServer | None = None
        self._bouncer: Bouncer | None = None

    def add(self, desk: Asked) -> Place:
        """Host a desk; returns where to ask for it."""
        self.desks[desk.name] = desk
        return self.listen()

    def listen(self) -> Place:
        """Let others in; returns where they find this, and what the rendezvous may hand them to get in."""
        if self._server is None:
            from tightwire.links.flight_server import FlightServer  # noqa: PLC0415 -- it knows this class

            self._server = FlightServer(self)
            self._bouncer = Bouncer(self._server.port, self.door.limits)
            threading.Thread(target=self._look_around, daemon=True).start()
        return self._place(self._server.port)

    def wait_for_goodbyes(self, timeout_s: float) -> list[int]:
        """Serve until everybody who came has left, or is gone; returns who was still here when the time was over."""
        deadline = time.monotonic() + timeout_s
        while self.present and time.monotonic() < deadline:
            time.sleep(_GOODBYE_EVERY_S)
        return sorted(self.present)

    def close(self) -> None:
        """Stop at once: whoever waits is told."""
        self.closed.set()
        for desk in list(self.desks.values()):
            desk.close()
        if self._server is not None:
            ending = threading.Thread(target=self._server.shutdown, daemon=True)
            ending.start()
            ending.join(_END_S)  # a peer that hangs in the middle of a stream does not keep us
            self._server = None

    def _look_around(self) -> None:
        assert self._bouncer is not None
        pause_s = _LOOK_EVERY_S
        while not self.closed.wait(pause_s):
            self.guard.count("connection", self._bouncer.look(time.monotonic()))
            pause_s = _LOOK_EVERY_S / (5 if self._bouncer.strangers else 1)
            for text in self.attendance.news(time.monotonic()):
                self.news(text)

    @property
    def present(self) -> set[int]:
        """The ranks of everybody here."""
        return {guest.rank for guest in self.attendance.here()}

    # ── desks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def find(self, token: Token, name: str) -> Asked:
        """A desk of the token's run."""
        desk = self.desks.get(full_name(token.run, name))
        if desk is None:
            raise UnknownMachine(f"nothing called {name!r} is here", reason="unknown machine")
        return desk

    def open(self, token: Token, room: str, name: str, data: Any, tensors: list[Any]) -> None:
        """Make a machine that a worker describes, in a room of its run."""
        if not token.run or not isinstance(self.form, Describes):
            raise PayloadError("machines are made here by the process itself, not by who comes", reason="not allowed")
        full = full_name(token.run, f"{room}/{name}")
        self._clear(token.run, room)
        machine = self.form.build(data, tensors)
        with self._lock:
            if full in self.desks:
                raise AlreadyOpen(f"{name} is open here already", reason="not allowed")
            self.desks[full] = self.make_desk(name, machine)

    def _clear(self, run: str, room: str) -> None:
        """An attempt that begins ends the older ones of its run, unless somebody lives there."""
        older = [guest for guest in self.attendance.here(run) if guest.room != room]
        alive = self.attendance.alive(older, time.monotonic())
        if alive:
            raise AccessError(
                f"{alive[0]} and {len(alive) - 1} others train with this token already, and a token opens one run; "
                "tightwire keys makes another"
            )
        for guest in older:
            self.goodbye(guest)
        for name in [name for name in list(self.desks) if name.startswith(f"{run}/")]:
            if not name.startswith(f"{run}/{room}/"):
                self._remove(name)

    def _remove(self, full: str) -> None:
        with self._lock:
            desk = self.desks.pop(full, None)
        if desk is not None:
            desk.close()

    def introduce(self, run: str, where: str) -> None:
        """Another server offers itself to a run; those who place its shards are told, if somebody does."""
        desks = [desk for name, desk in list(self.desks.items()) if name.startswith(f"{run}/")]
        movable = [desk for desk in desks if isinstance(desk, Introduces)]
        for desk in movable:
            desk.introduce(where)
        if desks and not movable and (run, where) not in self._in_vain:
            self._in_vain.add((run, where))
            self.news(f"{where} would share the work of {run}, whose shards do not move: it began without --copies")

    # ── guests ────────────────────────────────────────────────────────────────────────────────────────────────────

    def welcome(self, guest: Guest) -> None:
        """A worker comes."""
        self.attendance.came(guest, time.monotonic())

    def goodbye(self, guest: Guest) -> None:
        """A worker goes. The last one of a room of a server that stands alone takes its desks along, but what lasts."""
        self.attendance.left(guest)
        self.borrowed.forget(guest.rank)
        if guest.run and not self.attendance.here(guest.run, guest.room):
            for name, desk in list(self.desks.items()):
                if name.startswith(f"{guest.run}/{guest.room}/") and not desk.lasts:
                    self._remove(name)

    def lost(self, guest: Guest) -> None:
        """A worker's process has ended without a goodbye, if none of its connections is left."""
        if not self.attendance.broke(guest):
            return
        prefix = f"{guest.run}/{guest.room}/" if guest.run else ""
        for name, desk in list(self.desks.items()):
            if name.startswith(prefix):
                desk.mark_gone(guest.rank)
        self.goodbye(guest)

    def prove(self, peer: str) -> None:
        """A connection has shown a token."""
        if self._bouncer is not None:
            self._bouncer.prove(peer, time.monotonic())

    # ── looking at it ─────────────────────────────────────────────────────────────────────────────────────────────

    def report(self, run: str) -> dict[str, Any]:
        """What a run's own people may know."""
        prefix = f"{run}/" if run else ""
        machines = sorted(name.removeprefix(prefix) for name in list(self.desks) if name.startswith(prefix))
        return {
            "run": run,
            "machines": machines,
            "workers": self.attendance.report(run, time.monotonic()),
            "noticed": self.attendance.noticed(run),
            "refused": dict(self.guard.refused),
            "connections": self._bouncer.connections if self._bouncer is not None else 0,
        }

    def _place(self, port: int) -> Place:
        door = self.door
        location = f"{door.listen.rpartition(':')[0]}:{port}"
        if not door.hands_out:
            return Place(location, "", host=this_host())
        vouches = door.certificate.decode()
        return Place(location, door.tokens[0].secret, vouches, THROW_AWAY if vouches else "", this_host())


def _unheard(text: str) -> None:
    """Nobody asked for news."""


def full_name(run: str, name: str) -> str:
    """A desk's name among those of all runs."""
    return f"{run}/{name}" if run else name
