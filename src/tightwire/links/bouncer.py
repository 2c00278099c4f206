"""Connections that have not shown a token: few, not for long, and not with much luggage.

A token is seen when a call comes. Before that there is only a connection, which gRPC would keep open for minutes, and
for which Arrow Flight has no bound. So the process looks at its own sockets twice a second: of those that came to its
port and have not been proven by a call with a token, it shuts the ones that take too long, have sent too much, or are
too many, the oldest first: an honest worker shows its token at once. While there are strangers it looks more often.

Needs ``/proc``; elsewhere nobody is shown out.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from urllib.parse import unquote

from tightwire.links.limits import Limits

Address = tuple[str, int]
_TCP_INFO_NBYTES = 256
_RECEIVED_AT = 128  # tcpi_bytes_received in struct tcp_info of linux/tcp.h, since Linux 4.1
_FOLDER = "/proc/self/fd"


@dataclass
class _Seen:
    since: float
    proven: bool = False
    proven_at: float = float("-inf")


class Bouncer:
    """Looks after one port of this process."""

    def __init__(self, port: int, limits: Limits) -> None:
        self._port = port
        self._limits = limits
        self._seen: dict[Address, _Seen] = {}
        self._known: dict[str, Address | None] = {}  # each socket's peer, if it came to this port
        self._lock = Lock()
        self.connections = 0
        self.strangers = 0  # of them that have not been proven

    def prove(self, peer: str, now: float) -> None:
        """A call with a token has come over this connection, which gRPC calls ``peer``."""
        address = address_of(peer)
        with self._lock:
            seen = self._seen.setdefault(address, _Seen(now))
            seen.proven, seen.proven_at = True, now

    def look(self, now: float) -> int:
        """Show out whom it is time to show out; returns how many."""
        descriptors = self._mine()
        with self._lock:
            known = self._seen
            self._seen = {address: known.get(address) or _Seen(now) for address in descriptors}
            for address, seen in known.items():  # may have come after we looked, and shown its token already
                if seen.proven_at >= now:
                    self._seen[address] = seen
            self.connections = len(descriptors)
            strangers = [address for address, seen in self._seen.items() if not seen.proven]
            self.strangers = len(strangers)
        received = {a: self._at(a, descriptors[a], _received) for a in strangers if a in descriptors}
        with self._lock:
            out = self._unwelcome({address: nbytes or 0 for address, nbytes in received.items()}, now)
        for address in out & set(descriptors):
            self._at(address, descriptors[address], _shut)
        return len(out)

    def _unwelcome(self, received: dict[Address, int], now: float) -> set[Address]:
        limits = self._limits
        strangers = sorted((seen.since, a) for a, seen in self._seen.items() if not seen.proven)
        out = {
            a for since, a in strangers
            if now - since > limits.unproven_s or received.get(a, 0) > limits.unproven_nbytes
        }  # fmt: skip
        left = [a for _, a in strangers if a not in out]
        out.update(left[: max(0, len(left) - limits.unproven)])
        order = left + sorted((a for a, seen in self._seen.items() if seen.proven), key=lambda a: -self._seen[a].since)
        over = len(self._seen) - len(out) - limits.connections
        out.update([a for a in order if a not in out][: max(0, over)])
        return out

    def _mine(self) -> dict[Address, int]:
        """This process' connections at its port, and their descriptors. What a socket is, is asked only once."""
        found: dict[Address, int] = {}
        known: dict[str, Address | None] = {}
        with suppress(OSError):
            for entry in os.listdir(_FOLDER):
                with suppress(OSError, ValueError):
                    what = os.readlink(f"{_FOLDER}/{entry}")  # socket:[inode], which no other socket has meanwhile
                    if what.startswith("socket:"):
                        address = self._known[what] if what in self._known else self._ask(int(entry))
                        known[what] = address
                        if address is not None:
                            found[address] = int(entry)
        self._known = known
        return found

    def _ask(self, descriptor: int) -> Address | None:
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
            return self._peer(connection)
        return None

    def _at(self, address: Address, descriptor: int, do: Callable[[socket.socket], int]) -> int | None:
        """Do something with a connection: by a copy of its descriptor, which may be another's by now."""
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
            return do(connection) if self._peer(connection) == address else None
        return None

    def _peer(self, connection: socket.socket) -> Address | None:
        try:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return None
            if connection.getsockname()[1] != self._port:
                return None
            host, port, *_ = connection.getpeername()
            return _plain(host), port
        except OSError:
            return None  # it listens, or is gone


def address_of(peer: str) -> Address:
    """What gRPC calls a connection, as the kernel calls it.

    >>> address_of("ipv4:10.0.0.1:80"), address_of("ipv6:%5B::1%5D:80")
    (('10.0.0.1', 80), ('::1', 80))
    """
    host, _, port = unquote(peer.partition(":")[2]).rpartition(":")
    return _plain(host.strip("[]")), int(port) if port.isdigit() else 0


def _plain(host: str) -> str:
    return host.removeprefix("::ffff:")


def _shut(connection: socket.socket) -> int:
    connection.shutdown(socket.SHUT_RDWR)
    return 1


def _received(connection: socket.socket) -> int:
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_NBYTES)
    except OSError:
        return 0
    return int(struct.unpack_from("Q", info, _RECEIVED_AT)[0]) if len(info) >= _RECEIVED_AT + 8 else 0
