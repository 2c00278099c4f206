"""Small messages by sockets of our own: into the kernel and out of it, with no thread and no question in between.

    gloo   "I would send" ─▶ its thread ─▶ "I would take it" ─▶ its thread ─▶ body, bit by bit ─▶ its thread ─▶ yours
    here   body ─▶ the kernel, which sends it while the sender computes, and keeps it until the receiver wants it

What fits into the kernel's buffers is on its way when `send` returns; the rest follows while anybody waits here. There
is one connection between each two ranks with one order of messages, used by one thread at a time: whoever does the jobs
of the link. A message begins with its own length, as `links.rounds` writes it.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from torch import Tensor

from tightwire.algebra.errors import PayloadError, PeerLost, PeerTimeout
from tightwire.algebra.link import Pending

SMALL_NBYTES = 1 << 20  # larger messages need a thread that sends them beside the computing one
_HEAD_NBYTES = 8
_BUFFER_NBYTES = 1 << 22  # asked of the kernel, which gives what it allows


@dataclass
class _Outgoing:
    peer: _Peer
    left: memoryview
    what: str

    @property
    def done(self) -> bool:
        return not self.left

    def move(self) -> None:
        self.left = self.left[self.peer.connection.send(self.left) :]

    def wait(self, timeout_s: float) -> None:
        """Until the kernel has all of it."""
        self.peer.pipes.wait(self, timeout_s)


@dataclass
class _Incoming:
    peer: _Peer
    into: memoryview
    what: str
    taken: int = 0
    end: int = 0  # not known before the head is here

    @property
    def done(self) -> bool:
        return 0 < self.end == self.taken

    def move(self) -> None:
        taken = self.peer.connection.recv_into(self.into[self.taken : self.end or _HEAD_NBYTES])
        if not taken:
            raise ConnectionError("it was closed")
        self.taken += taken
        if not self.end and self.taken == _HEAD_NBYTES:
            claimed, room = int.from_bytes(self.into[:_HEAD_NBYTES], "little"), len(self.into) - _HEAD_NBYTES
            if claimed > room:
                raise PayloadError(f"a message claims {claimed} bytes where at most {room} fit")
            self.end = _HEAD_NBYTES + claimed

    def wait(self, timeout_s: float) -> None:
        """Until all of it is here."""
        self.peer.pipes.wait(self, timeout_s)


@dataclass
class _Peer:
    pipes: Pipes
    connection: socket.socket
    outgoing: deque[_Outgoing] = field(default_factory=deque)
    incoming: deque[_Incoming] = field(default_factory=deque)

    @property
    def wants(self) -> int:
        """What to wait for at its connection."""
        return (select.POLLIN if self.incoming else 0) | (select.POLLOUT if self.outgoing else 0)

    def move(self) -> None:
        """Whatever can be moved now; raises `OSError` where the connection is broken."""
        queues: tuple[deque[_Outgoing] | deque[_Incoming], ...] = (self.outgoing, self.incoming)
        for queue in queues:
            with suppress(BlockingIOError):
                while queue:
                    while not queue[0].done:
                        queue[0].move()
                    queue.popleft()


class Pipes:
    """One rank's connections, as a port; ``silent`` says who gives no sign of life, for the end of a sentence."""

    exact = False

    def __init__(self, rank: int, connections: Mapping[int, socket.socket], silent: Callable[[], str]) -> None:
        self._rank = rank
        self._silent = silent
        self._peers = {peer: _Peer(self, connection) for peer, connection in connections.items()}
        for connection in connections.values():
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_NBYTES)

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        """Give it to the kernel, behind what was sent before."""
        peer = self._peers[to]
        message = _Outgoing(peer, tensor.numpy().data, f"rank {to} to take a message")
        peer.outgoing.append(message)
        self._move(peer, message.what)
        return message

    def receive(self, tensor: Tensor, source: int, tag: int) -> Pending:
        """Say where it goes; it is read when somebody waits."""
        peer = self._peers[source]
        peer.incoming.append(_Incoming(peer, tensor.numpy().data, f"a message from rank {source}"))
        return peer.incoming[-1]

    def wait(self, message: _Outgoing | _Incoming, timeout_s: float) -> None:
        """Move what can be moved, of all messages, until one is done."""
        deadline = time.monotonic() + timeout_s
        self._move(message.peer, message.what)
        while not message.done:
            ready = self._ready(deadline - time.monotonic())
            if not ready:
                raise PeerTimeout(
                    f"rank {self._rank} waited {timeout_s:g} s for {message.what}{self._silent()} (exchange_timeout_s)"
                )
            for peer in ready:
                self._move(peer, message.what)

    def _ready(self, timeout_s: float) -> list[_Peer]:
        wanted = {peer.connection.fileno(): peer for peer in self._peers.values() if peer.wants}
        poll = select.poll()
        for descriptor, peer in wanted.items():
            poll.register(descriptor, peer.wants)
        return [wanted[descriptor] for descriptor, _ in poll.poll(max(0.0, 1e3 * timeout_s))]

    def _move(self, peer: _Peer, what: str) -> None:
        try:
            peer.move()
        except OSError as error:
            raise PeerLost(
                f"rank {self._rank} lost its connection while waiting for {what}{self._silent()}: {error}"
            ) from None

    def close(self) -> None:
        """What the kernel has is still delivered."""
        for peer in self._peers.values():
            peer.connection.close()
