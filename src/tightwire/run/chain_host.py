"""What a server that stands alone makes of a seat: a place in a chain, reachable by the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tightwire.algebra.link import Asked, Machine
from tightwire.links.courier import Calls
from tightwire.links.desk import Desk
from tightwire.links.flight import Place
from tightwire.links.flight_client import Caller
from tightwire.run.chain_server import ChainServer
from tightwire.server.chain import Seat
from tightwire.server.chainform import ChainForm
from tightwire.server.replica import VIEWS

A_SERVER = -1  # where a call says which rank it comes from
_CONNECT_S = 1.0
Identity = tuple[bytes, bytes] | None


def place_of(places: Mapping[str, str], to: str) -> Place:
    """Where a server is; one that joined later listens where its name says, and opens to what opens the others."""
    if to in places:
        return Place.read(places[to])
    other = next(Place.read(text) for name, text in places.items() if name != VIEWS)
    return replace(other, location=to)


def connector(places: Mapping[str, str], me: int, identity: Identity = None) -> Callable[[str], Calls]:
    """Opens connections by name; who comes this way is nobody's guest."""

    def connect(to: str) -> Calls:
        caller = Caller(place_of(places, to), host=to, me=me, form=ChainForm(), identity=identity)
        caller.connect(_CONNECT_S)
        return caller

    return connect


class ChainHost:
    """The chains of one process. ``identity`` is its certificate and key, for servers that ask for one."""

    def __init__(self, identity: Identity = None) -> None:
        self._identity = identity
        self._servers: dict[tuple[str, str], ChainServer] = {}
        self._lock = threading.Lock()

    def make_desk(self, name: str, machine: Machine | Seat) -> Asked:
        """A place in a chain for a seat; a desk for anything else."""
        if not isinstance(machine, Seat):
            return Desk(name, machine)
        with self._lock:
            self._forget_the_past()
            server = self._servers.get((machine.room, machine.server)) or self._start(machine)
            desk = server.keep(name)
            if machine.copied is not None:
                server.found(name, machine.copied)
            return desk

    def depart(self) -> int:
        """Ask all runs to do without this server; returns how many shards are still needed here."""
        with self._lock:
            desks = [desk for server in self._servers.values() for desk in list(server.desks.values())]
        return sum(not desk.depart() for desk in desks)

    def report(self) -> list[dict[str, Any]]:
        """Where every copy here stands."""
        with self._lock:
            return [desk.report() for server in self._servers.values() for desk in list(server.desks.values())]

    def _start(self, seat: Seat) -> ChainServer:
        connect = connector(dict(seat.places), A_SERVER, self._identity)
        server = ChainServer(seat.server, time.time_ns(), connect, room=seat.room)
        self._servers[seat.room, seat.server] = server
        server.start()
        return server

    def _forget_the_past(self) -> None:
        for key, server in list(self._servers.items()):
            if server.idle:
                server.close()
                del self._servers[key]
