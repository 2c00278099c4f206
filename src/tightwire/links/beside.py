"""Large messages to a process of the same host go through memory that both see; in which order, the port says.

    sender     a place is free  ─▶ body into it ─▶ note "place k" ────────────┐
               none is          ─▶ note "it follows" ─▶ body, by the port ────┤
    receiver   ◀───────────────────────────────────────────────────────────── note, by the port
               "place k": copied out, k is marked as taken     "it follows": received by the port

The memory is a `links.segment`: places one way, marks the other. With the first message of a size an offer of it goes
by the port. Whoever opens it marks that, too; until the sender sees the mark (for ever, where memory cannot be opened)
bodies follow by the port. Nobody waits for an answer. Bodies and notes have tags of their own, so that notes can be
received ahead.

The computing thread copies. Where a host has two cores for each of its workers, gloo's own threads do that beside it,
so memory is used only where cores are scarce; TIGHTWIRE_MEMORY=always or never decides otherwise, for all workers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tightwire.algebra.errors import JoinError, PayloadError
from tightwire.algebra.link import Pending, Port
from tightwire.algebra.world import World
from tightwire.links.copying import copy_for
from tightwire.links.frames import Bytes, expect, flat_bytes
from tightwire.links.same_host import LEAST_NBYTES
from tightwire.links.segment import Segment, can_share, make, open_offered

PLACES = 3  # one is written, one is read, one is in between
BODIES = 1 << 10  # added to the tag of what follows a note
_FOLLOWS, _OFFERED, _PLACED = 0, 1, 2
_GRAIN_NBYTES = 1 << 12
_MOST_OFFER_NBYTES = 1 << 12


@dataclass
class _Memory:
    """A segment as places and marks: how often each place was taken, and whether the other side has opened it."""

    segment: Segment
    size: int

    def __post_init__(self) -> None:
        whole, marks = [["uint8", [self.size]]] * PLACES, [["int64", [PLACES + 1]]]
        self.places: list[Bytes] = [flat_bytes(place) for place in self.segment.up.tensors(expect(whole))]
        self.marks = self.segment.down.tensors(expect(marks))[0].numpy()


@dataclass
class _Outbound:
    """Messages to one rank with one tag."""

    memory: _Memory | None = None
    handle: int | None = None  # until the other side has opened the memory
    filled: list[int] = field(default_factory=lambda: [0] * PLACES)

    def place(self, nbytes: int) -> int | None:
        """One that is large enough and free."""
        if self.memory is None or nbytes > self.memory.size or not self.memory.marks[PLACES]:
            return None
        self.close()
        free = (place for place in range(PLACES) if self.memory.marks[place] == self.filled[place])
        return next(free, None)

    def offer(self, nbytes: int) -> bytes | None:
        """Make memory for messages of such a size, unless there is some."""
        if self.memory is not None and nbytes <= self.memory.size:
            return None
        self.close()
        size = -(-nbytes // _GRAIN_NBYTES) * _GRAIN_NBYTES
        segment, told, self.handle = make(PLACES * size, _GRAIN_NBYTES)
        self.memory, self.filled = _Memory(segment, size), [0] * PLACES
        return json.dumps({**told, "size": size}).encode()

    def close(self) -> None:
        """The memory stays; its name goes."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


class Beside:
    """A port beside another one. Sender and receiver must give tensors of the same size."""

    def __init__(self, port: Port, world: World, use: str = "always") -> None:
        self._port = port
        self._world = world
        if use not in ("always", "never", "scarce"):
            raise JoinError(f"TIGHTWIRE_MEMORY={use}: it is always, never, or scarce (where cores are)")
        self._used = can_share() and (use == "always" or (use == "scarce" and _is_crowded(world)))
        self._out: dict[tuple[int, int], _Outbound] = {}
        self._in: dict[tuple[int, int], _Memory | None] = {}
        self.placed = 0  # messages that went through memory

    @property
    def exact(self) -> bool:
        """As the port."""
        return self._port.exact

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        """Into memory, or as the port does."""
        if not self._is_beside(to, tensor):
            return self._port.send(tensor, to, tag)
        channel = self._out.setdefault((to, tag), _Outbound())
        place = channel.place(tensor.nbytes)
        if place is not None:
            assert channel.memory is not None
            copy_for(tensor.nbytes)(channel.memory.places[place][: tensor.nbytes], flat_bytes(tensor))
            channel.filled[place] += 1
            self.placed += 1
            return self._say([_note(_PLACED, place)], to, [tag])
        offer = channel.offer(tensor.nbytes)
        if offer is None:
            return self._say([_note(_FOLLOWS, 0), tensor], to, [tag, tag + BODIES])
        text = torch.frombuffer(bytearray(offer), dtype=torch.uint8)
        return self._say([_note(_OFFERED, len(offer)), text, tensor], to, [tag, tag + BODIES, tag + BODIES])

    def receive(self, tensor: Tensor, source: int, tag: int) -> Pending:
        """Out of memory, or as the port does."""
        if not self._is_beside(source, tensor):
            return self._port.receive(tensor, source, tag)
        note = _note(0, 0)
        return _Coming(self, self._port.receive(note, source, tag), note, tensor, source, tag)

    def take(self, note: Tensor, tensor: Tensor, source: int, tag: int, timeout_s: float) -> None:
        """What a note announces."""
        kind, number = note.tolist()
        if kind == _PLACED:
            self._copy_out(number, tensor, source, tag)
            return
        if kind == _OFFERED and 0 <= number <= _MOST_OFFER_NBYTES:
            text = torch.empty(number, dtype=torch.uint8)
            self._port.receive(text, source, tag + BODIES).wait(timeout_s)
            self._in[source, tag] = _opened(text.numpy().tobytes())
        elif kind != _FOLLOWS:
            raise PayloadError(f"rank {source} announced a message with {note.tolist()}, which is no note")
        self._port.receive(tensor, source, tag + BODIES).wait(timeout_s)

    def close(self) -> None:
        """Let go of what nobody has opened."""
        for channel in self._out.values():
            channel.close()
        self._out.clear()
        self._in.clear()

    def _copy_out(self, place: int, tensor: Tensor, source: int, tag: int) -> None:
        memory = self._in.get((source, tag))
        if memory is None or not 0 <= place < PLACES or tensor.nbytes > memory.size:
            raise PayloadError(f"rank {source} put a message into place {place}, which is not open here")
        copy_for(tensor.nbytes)(flat_bytes(tensor), memory.places[place][: tensor.nbytes])
        memory.marks[place] += 1  # only now may it be written again

    def _say(self, tensors: Sequence[Tensor], to: int, tags: Sequence[int]) -> Pending:
        pending = [self._port.send(tensor, to, tag) for tensor, tag in zip(tensors, tags, strict=True)]
        return _Leaving(pending, tensors)

    def _is_beside(self, rank: int, tensor: Tensor) -> bool:
        hosts = self._world.hosts
        return self._used and tensor.nbytes >= LEAST_NBYTES and bool(hosts) and hosts[rank] == hosts[self._world.rank]


@dataclass
class _Leaving:
    pending: Sequence[Pending]
    tensors: Sequence[Tensor]  # must stay until they have left

    def wait(self, timeout_s: float) -> None:
        """All of them have left."""
        for one in self.pending:
            one.wait(timeout_s)


@dataclass
class _Coming:
    port: Beside
    pending: Pending
    note: Tensor
    tensor: Tensor
    source: int
    tag: int

    def wait(self, timeout_s: float) -> None:
        """The note, then what it announces."""
        self.pending.wait(timeout_s)
        self.port.take(self.note, self.tensor, self.source, self.tag, timeout_s)


def _is_crowded(world: World) -> bool:
    """Whether this host has fewer than two cores for each of its workers: all of them find the same."""
    here = sum(host == world.hosts[world.rank] for host in world.hosts) if world.hosts else 1
    return 2 * here > (os.cpu_count() or 1)


def _note(kind: int, number: int) -> Tensor:
    return torch.tensor([kind, number], dtype=torch.int64)


def _opened(text: bytes) -> _Memory | None:
    """The memory of an offer, marked as opened; None where that cannot be."""
    try:
        offer = json.loads(text)
        memory = _Memory(open_offered(offer), int(offer["size"]))
    except (PayloadError, ValueError, KeyError, TypeError):
        return None
    memory.marks[PLACES] = np.int64(1)
    return memory
