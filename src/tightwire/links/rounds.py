"""The executor: runs a list of transfers over point-to-point messages, and counts what it hands over.

Every rank walks the same list and takes part in its own transfers, round by round. In a round all receives are posted
first, then all sends: gloo tells a sender that its message is awaited over the connection that carries the data, and a
word behind megabytes waits for them, so two ranks that sent to each other would do it one after the other. A message is
added or copied in only when the sends of the round have left, so a transfer always carries what its sender had before
the round.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeVar

import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError, PeerTimeout
from tightwire.algebra.exchange import Transfer, part_edges
from tightwire.algebra.lengths import length_bytes, read_lengths
from tightwire.algebra.link import Pending, Port

R = TypeVar("R")
_LENGTH = torch.int64  # a payload of varying length is preceded by that length
_FRAME_NBYTES = _LENGTH.itemsize


@dataclass
class Moved:
    """Bytes handed to the transport and received from it."""

    tx: int = 0
    rx: int = 0


@dataclass(frozen=True)
class Route:
    """Among whom, under which tag, how long to wait, and what to say if that was in vain."""

    port: Port
    members: tuple[int, ...]
    me: int
    tag: int
    timeout_s: float
    label: str

    def rounds(self, transfers: Sequence[Transfer]) -> Iterator[tuple[int, list[Transfer]]]:
        """This rank's transfers, round by round."""
        mine = [t for t in transfers if self.me in (t.src, t.dst)]
        for number, group in groupby(mine, key=lambda t: t.round):
            yield number, list(group)

    def wait(self, pending: Pending, round_number: int) -> None:
        """Wait for one message; say what it was for if it does not come."""
        try:
            pending.wait(self.timeout_s)
        except PeerTimeout as late:
            raise PeerTimeout(f"{self.label}, round {round_number}: {late}") from None


def reduce_(
    route: Route, flat: Tensor, transfers: Sequence[Transfer], pieces: int, combine: Literal["sum", "max"] = "sum"
) -> Moved:
    """Run an all-reduce (or broadcast) in place on ``flat``."""
    edges = part_edges(flat.numel(), pieces)
    put: Callable[[Tensor, Tensor], object] = Tensor.add_ if combine == "sum" else _max_
    moved = Moved()
    spare = flat.new_empty(max((edges[t.hi] - edges[t.lo] for t in transfers if t.dst == route.me), default=0))

    def part(t: Transfer) -> Tensor:
        return flat[edges[t.lo] : edges[t.hi]]

    for number, group in route.rounds(transfers):
        group = [t for t in group if part(t).numel()]  # noqa: PLW2901 -- empty parts are no messages
        incoming = [t for t in group if t.dst == route.me]
        buffers = _buffers(incoming, part, spare)
        receives = [
            route.port.receive(buffer, route.members[t.src], route.tag)
            for t, buffer in zip(incoming, buffers, strict=True)
        ]
        sends = [route.port.send(part(t), route.members[t.dst], route.tag) for t in group if t.src == route.me]
        for pending in (*sends, *receives):
            route.wait(pending, number)
        for t, buffer in zip(incoming, buffers, strict=True):
            if t.op == "add":
                put(part(t), buffer)
        moved.tx += sum(part(t).nbytes for t in group if t.src == route.me)
        moved.rx += sum(part(t).nbytes for t in incoming)
    return moved


def _buffers(incoming: Sequence[Transfer], part: Callable[[Transfer], Tensor], spare: Tensor) -> list[Tensor]:
    """Where each message arrives: copies go straight home, what is to be added waits in spare memory."""
    buffers = []
    for t in incoming:
        if t.op == "copy":
            buffers.append(part(t))
        else:
            buffers.append(spare[: part(t).numel()])
            spare = torch.empty_like(spare) if len(incoming) > 1 else spare
    return buffers


def _max_(into: Tensor, other: Tensor) -> None:
    torch.maximum(into, other, out=into)


def carry(
    route: Route, slots: list[Tensor | None], transfers: Sequence[Transfer], capacity: Sequence[int]
) -> Generator[None, None, Moved]:
    """Move whole payloads of varying length between slots; ``slots`` that were None are filled.

    ``capacity[i]`` bounds slot i's bytes on every rank. A message is the payload's length and the payload; where the
    transport wants the exact size posted, it is padded to the capacity (and those bytes count). Yields in every round
    when its messages are on their way, and at the end.
    """
    frames = {i: _frame(slot, capacity[i], route.port.exact) for i, slot in enumerate(slots) if slot is not None}
    moved = Moved()
    for number, group in route.rounds(transfers):
        outgoing = [t for t in group if t.src == route.me]
        incoming = [t for t in group if t.dst == route.me]
        device = next(iter(frames.values())).device
        buffers = [torch.empty(_FRAME_NBYTES + capacity[t.lo], dtype=torch.uint8, device=device) for t in incoming]
        receives = [
            route.port.receive(buffer, route.members[t.src], route.tag)
            for t, buffer in zip(incoming, buffers, strict=True)
        ]
        sends = [route.port.send(frames[t.lo], route.members[t.dst], route.tag) for t in outgoing]
        yield
        for pending in (*receives, *sends):  # who waits for the last to come finds the rest done
            route.wait(pending, number)
        for t, buffer, length in zip(incoming, buffers, _lengths(buffers), strict=True):
            end = _FRAME_NBYTES + length
            frames[t.lo] = buffer if route.port.exact else buffer[:end]
            slots[t.lo] = buffer[_FRAME_NBYTES:end]
        moved.tx += sum(frames[t.lo].nbytes for t in outgoing)
        moved.rx += sum(frames[t.lo].nbytes for t in incoming)
    yield
    return moved


def ended(steps: Generator[None, None, R]) -> R:
    """What comes out at the end of something that is done step by step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def _frame(payload: Tensor, capacity: int, exact: bool) -> Tensor:
    data = payload.contiguous().view(torch.uint8)
    assert data.numel() <= capacity, (data.numel(), capacity)
    length = length_bytes(data.numel(), _LENGTH, data.device)
    padding = data.new_zeros(capacity - data.numel() if exact else 0)
    return torch.cat([length, data, padding])


def _lengths(frames: Sequence[Tensor]) -> list[int]:
    lengths = read_lengths([frame[:_FRAME_NBYTES] for frame in frames], _LENGTH)
    for length, frame in zip(lengths, frames, strict=True):
        if not 0 <= length <= frame.numel() - _FRAME_NBYTES:
            raise PayloadError(f"a message claims {length} bytes where at most {frame.numel() - _FRAME_NBYTES} fit")
    return lengths
