"""A narrow link in user space: any link, made to take the time that its bytes would take at a given rate.

For machines without root, where `tightwire.lab` cannot have the kernel do it. Messages travel at once; what is shaped
is when a wait for them returns. Each worker has two pipes of ``rate`` bits a second that run at the same time:

    sender     leaves from  s = max(now, end of the previous message)  until  s + n/rate     its wait returns then
    receiver   arrives from s + latency, as its own pipe has room,     for n/rate            its wait returns then

so one who sends to three takes three times as long, and so does one to whom three send. Ahead of each message goes a
note of its size and of s; the two clocks must be one clock, so this works between processes of one machine.

Departures from the lab: payload is charged, TCP/IP framing (4.6% at 1500-byte frames) is not; native collectives are
invisible to a port, so they are not used and our own executor runs instead; requests to a hosted machine are not
shaped; over NCCL, whose waits return before the bytes are there, it is untried. In the in-process world workers sleep
one after another, so there the times mean nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tightwire.algebra.errors import JoinError, LinkError, PeerTimeout
from tightwire.algebra.link import Carried, Link, Machine, Pending, Port
from tightwire.algebra.world import World

_NOTE = 3  # nbytes, when its first byte left, when it was written (nanoseconds)
_CLOCK_SLACK_NS = 10**6
_REMEMBERED = 256


@dataclass(frozen=True)
class Pace:
    """How fast, how far, and by which clock."""

    bits_per_second: float
    latency_s: float = 0.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if not (self.bits_per_second > 0 and self.latency_s >= 0):
            raise JoinError(
                f"a link of {self.bits_per_second:g} bit/s and {self.latency_s:g} s latency: the rate must be "
                "positive, the latency not negative"
            )

    def seconds(self, nbytes: int) -> float:
        """What so many bytes take."""
        return nbytes * 8 / self.bits_per_second

    def until(self, moment: float, timeout_s: float, what: str) -> None:
        """Sleep until then, unless that is longer than allowed."""
        left = moment - self.clock()
        if left > timeout_s:
            raise PeerTimeout(
                f"{what} takes another {left:.3g} s on a link of {self.bits_per_second:g} bit/s, longer than the "
                f"{timeout_s:g} s allowed (exchange_timeout_s)"
            )
        if left > 0:
            self.sleep(left)


@dataclass
class Pipe:
    """One direction of a worker's link: when it was, and will be, busy.

    >>> pipe = Pipe()
    >>> pipe.carry(0.0, 2.0), pipe.carry(5.0, 1.0), pipe.carry(1.0, 4.0), pipe.busy
    (2.0, 6.0, 7.0, [(0.0, 7.0)])
    """

    busy: list[tuple[float, float]] = field(default_factory=list)

    def carry(self, start: float, duration: float) -> float:
        """Take up the first free moments from ``start`` on; return when the last of them ends.

        Messages are waited for in another order than they were sent in, so one may use a gap before the latest.
        """
        at, left = start, duration
        for begin, end in self.busy:
            room = max(0.0, begin - at)
            if room >= left:
                break
            left, at = left - room, max(at, end)
        finish = at + left
        kept: list[tuple[float, float]] = []
        for begin, end in sorted([*self.busy, (start, finish)]):  # every gap in between was used up
            if kept and begin <= kept[-1][1]:
                kept[-1] = (kept[-1][0], max(kept[-1][1], end))
            else:
                kept.append((begin, end))
        self.busy = kept[-_REMEMBERED:]
        return finish


class ShapedPort:
    """Point-to-point transfers that take their time."""

    def __init__(self, port: Port, pace: Pace) -> None:
        self._port = port
        self._pace = pace
        self._out, self._in = Pipe(), Pipe()
        self._lock = threading.Lock()

    @property
    def exact(self) -> bool:
        """As the port beneath."""
        return self._port.exact

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        """Send the note and the message; the wait returns when the last byte would have left."""
        with self._lock:
            now = self._pace.clock()
            finish = self._out.carry(now, self._pace.seconds(tensor.nbytes))
        start = finish - self._pace.seconds(tensor.nbytes)
        note = torch.tensor([tensor.nbytes, _ns(start), _ns(now)], dtype=torch.int64, device=tensor.device)
        pending = (self._port.send(note, to, tag), self._port.send(tensor, to, tag))
        return _Leaving(pending, note, self._pace, finish, f"a message of {tensor.nbytes} bytes to rank {to}")

    def receive(self, tensor: Tensor, source: int, tag: int) -> Pending:
        """Receive the note and the message; the wait returns when the last byte would have come."""
        note = torch.empty(_NOTE, dtype=torch.int64, device=tensor.device)
        pending = (self._port.receive(note, source, tag), self._port.receive(tensor, source, tag))
        return _Coming(pending, note, self, source)

    def arrival(self, note: Tensor, source: int, timeout_s: float) -> None:
        """Sleep until the message would have come in whole."""
        nbytes, start_ns, written_ns = (int(value) for value in note.tolist())
        if written_ns > _ns(self._pace.clock()) + _CLOCK_SLACK_NS:
            raise LinkError(
                f"a message from rank {source} bears a later time than it is here: links can be shaped in user space "
                "between processes of one machine only; use real links between machines, without --link"
            )
        with self._lock:
            finish = self._in.carry(start_ns / 1e9 + self._pace.latency_s, self._pace.seconds(nbytes))
        self._pace.until(finish, timeout_s, f"a message of {nbytes} bytes from rank {source}")


def _ns(moment: float) -> int:
    return round(moment * 1e9)


@dataclass
class _Leaving:
    pending: tuple[Pending, Pending]
    note: Tensor  # must live until it has left
    pace: Pace
    finish: float
    what: str

    def wait(self, timeout_s: float) -> None:
        """Wait for the transport, then for the pipe."""
        for part in self.pending:
            part.wait(timeout_s)
        self.pace.until(self.finish, timeout_s, self.what)


@dataclass
class _Coming:
    pending: tuple[Pending, Pending]
    note: Tensor
    port: ShapedPort
    source: int
    came: bool = False

    def wait(self, timeout_s: float) -> None:
        """Wait for the transport, then for the pipe."""
        if self.came:
            return
        for part in self.pending:
            part.wait(timeout_s)
        self.came = True
        self.port.arrival(self.note, self.source, timeout_s)


class ShapedLink:
    """A link whose port is shaped and which has no native collectives."""

    def __init__(self, link: Link, pace: Pace) -> None:
        self._link = link
        self._shaped = ShapedPort(link.port, pace)

    @property
    def world(self) -> World:
        """Who is connected."""
        return self._link.world

    @property
    def port(self) -> Port:
        """Transfers that take their time."""
        return self._shaped

    @property
    def near(self) -> Port:
        """The same: nothing gets past the pipe."""
        return self._shaped

    @property
    def framed(self) -> Port:
        """The same: nothing gets past the pipe."""
        return self._shaped

    @property
    def wire_device(self) -> torch.device | None:
        """As the link beneath."""
        return self._link.wire_device

    def submit(self, job: Callable[[], None], *, first: Callable[[], None] | None = None) -> Pending:
        """As the link beneath."""
        return self._link.submit(job, first=first)

    def prepare(self, members: Sequence[int]) -> None:
        """Nothing to prepare."""

    def native(self, name: str, tensor: Tensor, members: Sequence[int]) -> Pending | None:
        """None: the bytes of a native collective do not pass the port."""
        return None

    def host(self, name: str, make: Callable[[], Machine], *, on: int) -> None:
        """As the link beneath, unshaped."""
        self._link.host(name, make, on=on)

    def afar(self, name: str) -> bool:
        """As the link beneath."""
        return self._link.afar(name)

    def count_with(self, carried: Carried) -> bool:
        """As the link beneath."""
        return self._link.count_with(carried)

    def faults(self) -> dict[str, Any]:
        """As the link beneath."""
        return self._link.faults()

    def share(self, name: str, numel: int, dtype: torch.dtype) -> Tensor:
        """As the link beneath: memory is not shaped."""
        return self._link.share(name, numel, dtype)

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """As the link beneath, unshaped."""
        return self._link.ask(name, event, timeout_s)

    def count(self, name: str, amount: int) -> int:
        """As the link beneath."""
        return self._link.count(name, amount)

    def close(self, *, abandon: bool = False) -> None:
        """Close the link beneath."""
        self._link.close(abandon=abandon)
