"""How one parcel crosses the wire: where encoding and decoding happen, by the pattern of the exchange.

    reduce   compress ─▶ sum of payloads ─▶ decode once ─▶ settle
    gather   compress ─▶ everybody's payload ─▶ decode each, in rank order ─▶ settle
    owners   remember ─▶ encode P pieces ─▶ owners ─▶ decode, add, remember, encode ─▶ everybody ─▶ decode, settle

In tiers a plain sum inside the group comes first, the group's first member does the rest, and the result is broadcast.
Afterwards ``parcel.x`` holds the weighed sum over all workers, the same bits on every rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tightwire.algebra.codec import Ask, Payload, Sent, drive
from tightwire.algebra.compressor import Compressed, refuse_not_finite
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.exchanges.allreduce import allreduce
from tightwire.exchanges.gather import Gather
from tightwire.exchanges.owners import Owners
from tightwire.run.lane import Lane
from tightwire.run.parcel import Parcel
from tightwire.run.transport import Entry, Transport


def cross(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> None:
    """Exchange one parcel of a collective lane. Runs as one job."""
    entry = Entry("exchange", parcel.label)
    group = lane.group
    if lane.leaf.inner is not None:
        transport.reduce_(parcel.x.flat, lane.leaf.inner.exchange, group.inner, entry)
    if group.speaks:
        moment = at.inside(transport.inside(group.outer))
        _PATTERNS[lane.recipe.exchange.pattern](lane, parcel, moment, transport)
    if lane.leaf.inner is not None:
        transport.broadcast_(parcel.x.flat, group.inner, entry)


def _reduce(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> None:
    entry = Entry("exchange", parcel.label)
    if lane.plain:
        transport.ledger.produced(parcel.x.flat.nbytes)
        transport.reduce_(parcel.x.flat, lane.recipe.exchange, lane.group.outer, entry)
        return
    done = _compress(lane, parcel, at, transport)
    transport.reduce_(done.payload.wire, lane.recipe.exchange, lane.group.outer, entry)
    _decode_all(lane, parcel, [done.payload], at)
    _settle(lane, parcel, done, at)


def _gather(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> None:
    entry, members = Entry("exchange", parcel.label), lane.group.outer
    exchange, codec = lane.recipe.exchange, lane.recipe.up[1]
    done = _compress(lane, parcel, at, transport)
    capacity = codec.capacity(parcel.x.spec, at)
    if isinstance(exchange, Gather) and exchange.densely(capacity, parcel.x.spec.nbytes, at.world):
        _decode_all(lane, parcel, [done.payload], at)
        transport.reduce_(parcel.x.flat, allreduce(), members, entry)
    else:
        wires = transport.gather(done.payload.wire, members, capacity, entry)
        _decode_all(lane, parcel, [Payload(wire, done.payload.local) for wire in wires], at)
    _settle(lane, parcel, done, at)


def _owners(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> None:
    entry, members, world = Entry("exchange", parcel.label), lane.group.outer, at.world
    assert isinstance(lane.recipe.exchange, Owners) and parcel.kept and parcel.kept_down
    (memory, codec), (memory_down, codec_down) = lane.recipe.up, lane.recipe.down
    asked = _answerer(lane, parcel, transport)

    if memory.keeps:
        refuse_not_finite(parcel.x)
    value = memory.before(parcel.x, parcel.kept.memory, at)  # up: a piece of mine to every owner
    pieces = [drive(codec.encode(piece, {}, at), asked) for piece in value.cut(world.size)]
    transport.ledger.produced(sum(piece.payload.nbytes for piece in pieces))
    slots: list[Tensor | None] = [None] * world.size**2
    slots[world.rank * world.size : (world.rank + 1) * world.size] = [p.payload.wire for p in pieces]
    cuts = parcel.x.cut(world.size)
    capacity = [codec.capacity(cuts[slot % world.size].spec, at) for slot in range(world.size**2)]
    arrived = transport.carry(slots, lane.recipe.exchange.transfers(world), capacity, members, entry)

    mine = cuts[world.rank]  # the sum of everybody's piece, encoded again
    total = Bucket.zeros(mine.spec)
    for wire in _for_owner(arrived, slots, world.rank, world.size):
        codec.decode_(total, Payload(wire), {}, at)
    value_down = memory_down.before(total, parcel.kept_down.memory, at)
    encoded = drive(codec_down.encode(value_down, {}, at), asked)
    capacity_down = [codec_down.capacity(cut.spec, at) for cut in cuts]
    sums: list[Tensor | None] = [None] * world.size
    sums[world.rank] = encoded.payload.wire

    wires = transport.carry(sums, lane.recipe.exchange.down(world), capacity_down, members, entry)
    parcel.x.flat.zero_()
    for cut, wire in zip(cuts, wires, strict=True):
        codec_down.decode_(cut, Payload(wire), {}, at)
    memory_down.after(value_down, encoded.sent, mine, parcel.kept_down.memory, at)
    memory.after(value, _Pieces([p.sent for p in pieces]), parcel.x, parcel.kept.memory, at)


def _for_owner(arrived: list[Tensor], slots: list[Tensor | None], owner: int, size: int) -> list[Tensor]:
    """The payloads for one owner in the order of their senders; ``arrived`` holds my own row and my column."""
    present = [slot for slot in range(size**2) if slots[slot] is not None or slot % size == owner]
    return [wire for slot, wire in zip(present, arrived, strict=True) if slot % size == owner]


@dataclass(frozen=True)
class _Pieces:
    """What was sent of a bucket that travelled in pieces."""

    sent: list[Sent]

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        for piece, sent in zip(bucket.cut(len(self.sent)), self.sent, strict=True):
            sent.subtract_from_(piece)

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Forget what was sent."""
        for piece, sent in zip(bucket.cut(len(self.sent)), self.sent, strict=True):
            sent.zero_where_sent_(piece)


_PATTERNS: dict[str, Callable[[Lane, Parcel, At, Transport], None]] = {
    "reduce": _reduce,
    "gather": _gather,
    "owners": _owners,
}


def _compress(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> Compressed:
    assert parcel.kept is not None
    done = drive(lane.compressor.compress(parcel.x, parcel.kept, at), _answerer(lane, parcel, transport))
    transport.ledger.produced(done.payload.nbytes)
    return done


def _answerer(lane: Lane, parcel: Parcel, transport: Transport) -> Callable[[Ask], Tensor]:
    """Answers a codec's questions with the lane's own exchange."""
    entry, members = Entry("ask", parcel.label), lane.group.outer
    exchange = lane.recipe.exchange if lane.recipe.exchange.pattern == "reduce" else allreduce()

    def answer(ask: Ask) -> Tensor:
        transport.ledger.produced(ask.tensor.nbytes)
        flat = ask.tensor.flatten()
        if ask.kind == "gather":
            parts = transport.gather(flat.view(torch.uint8), members, flat.nbytes, entry)
            return torch.stack([part.view(flat.dtype).view(ask.tensor.shape) for part in parts])
        transport.reduce_(flat, exchange, members, entry, "max" if ask.kind == "max" else "sum")
        reply = flat.view(ask.tensor.shape)
        return reply / len(members) if ask.kind == "mean" else reply

    return answer


def _decode_all(lane: Lane, parcel: Parcel, payloads: list[Payload], at: At) -> None:
    assert parcel.kept is not None
    parcel.x.flat.zero_()
    for payload in payloads:
        lane.recipe.up[1].decode_(parcel.x, payload, parcel.kept.codec, at)


def _settle(lane: Lane, parcel: Parcel, done: Compressed, at: At) -> None:
    assert parcel.kept is not None
    lane.compressor.settle(done, parcel.x, parcel.kept, at)
