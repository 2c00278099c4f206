"""How one parcel crosses the wire: where encoding and decoding happen, by the pattern of the exchange.

    reduce   compress ─▶ sum of payloads ─▶ decode once ─▶ settle
    gather   compress ─▶ everybody's payload ─▶ decode each, in rank order ─▶ settle (some settle while payloads travel)
             a caller may leave it while payloads travel, and begin with another parcel (`crossing`)
    peers    encode ─▶ some get some ─▶ the mean of one's own and what came
    owners   remember ─▶ encode P pieces ─▶ owners ─▶ decode, add, remember, encode ─▶ everybody ─▶ decode, settle

In tiers a plain sum inside the group comes first, the group's first member does the rest, and the result is broadcast.
Afterwards ``parcel.x`` holds the weighed sum over all workers (or peers), the same bits on every rank that took part.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import islice

import torch
from torch import Tensor

from tightwire.algebra.codec import Ask, Payload, drive
from tightwire.algebra.compressor import Compressed, refuse_not_finite
from tightwire.algebra.exchange import Switches, TwoWay
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.exchanges.allreduce import allreduce
from tightwire.links.rounds import ended
from tightwire.run.lane import Lane
from tightwire.run.parcel import Parcel
from tightwire.run.ranges import Pieces
from tightwire.run.transport import Entry, Transport


def cross(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> None:
    """Exchange one parcel of a collective lane. Runs as one job."""
    ended(crossing(lane, parcel, at, transport))


def crossing(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> Generator[None, None, None]:
    """The same, step by step: it yields where only messages are waited for that are on their way."""
    entry = Entry("exchange", parcel.label)
    group = lane.group
    if lane.leaf.inner is not None:
        transport.reduce_(parcel.x.flat, lane.leaf.inner.exchange, group.inner, entry)
    if group.speaks:
        moment = at.inside(transport.inside(group.outer))
        yield from _PATTERNS[lane.recipe.exchange.pattern](lane, parcel, moment, transport) or ()
    if lane.leaf.inner is not None:
        transport.broadcast_(parcel.x.flat, group.inner, entry)


def _reduce(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> None:
    entry = Entry("exchange", parcel.label)
    if lane.plain:
        transport.ledger.produced(parcel.x.flat.nbytes)
        transport.reduce_(parcel.x.flat, lane.recipe.exchange, lane.group.outer, entry)
        return
    done = _compress(lane, parcel, at, transport)
    transport.ledger.produced(done.payload.nbytes)
    transport.reduce_(done.payload.wire, lane.recipe.exchange, lane.group.outer, entry)
    _decode_all(lane, parcel, [done.payload], at)
    _settle(lane, parcel, done, at)


def _gather(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> Iterator[None]:
    entry, members = Entry("exchange", parcel.label), lane.group.outer
    exchange, spec = lane.recipe.exchange, parcel.x.spec
    done = _compress(lane, parcel, at, transport)
    capacity = lane.recipe.up[1].capacity(spec, at)
    parcel.dense = isinstance(exchange, Switches) and exchange.densely(capacity, spec.nbytes, at.world)
    if parcel.dense:
        _decode_all(lane, parcel, [done.payload], at)
        parcel.x.fasten_()
        transport.ledger.produced(parcel.x.flat.nbytes)
        transport.reduce_(parcel.x.flat, allreduce(), members, entry)
        _settle(lane, parcel, done, at)
        return
    transport.ledger.produced(done.payload.nbytes)
    slots: list[Tensor | None] = [None] * at.world.size
    slots[at.world.rank] = done.payload.wire
    transfers, capacities = exchange.transfers(at.world, at), [capacity] * at.world.size
    steps = transport.carry(slots, transfers, capacities, members, entry)
    yield from islice(steps, 1)
    if lane.settles_early:
        _settle(lane, parcel, done, at)
    arrived = ended(steps)
    _decode_all(lane, parcel, [Payload(wire, done.payload.local) for wire in _present(arrived)], at)
    if not lane.settles_early:
        _settle(lane, parcel, done, at)


def _owners(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> None:
    assert parcel.kept and parcel.kept_down
    (memory, codec), (memory_down, codec_down) = lane.recipe.up, lane.recipe.down
    cuts = parcel.x.cut(at.world.size)
    mine = cuts[at.world.rank]
    asked = _answerer(lane, parcel, transport)
    if memory.keeps:
        refuse_not_finite(parcel.x)

    value = memory.before(parcel.x, parcel.kept.memory, at)  # up: a piece of mine to every owner
    pieces = [drive(codec.encode(piece, {}, at), asked) for piece in value.cut(at.world.size)]
    transport.ledger.produced(sum(piece.payload.nbytes for piece in pieces))
    total = Bucket.zeros(mine.spec)
    for wire in _to_owners(lane, parcel, [piece.payload.wire for piece in pieces], at, transport):
        codec.decode_(total, Payload(wire), {}, at)

    value_down = memory_down.before(total, parcel.kept_down.memory, at)  # down: the sum of my piece to everybody
    encoded = drive(codec_down.encode(value_down, {}, at), asked)
    wires = _from_owners(lane, parcel, encoded.payload.wire, at, transport)
    parcel.x.flat.zero_()
    for cut, wire in zip(cuts, wires, strict=True):
        codec_down.decode_(cut, Payload(wire), {}, at)
    memory_down.after(value_down, encoded.sent, mine, parcel.kept_down.memory, at)
    memory.after(value, Pieces([piece.sent for piece in pieces]), parcel.x, parcel.kept.memory, at)


def _to_owners(lane: Lane, parcel: Parcel, wires: list[Tensor], at: At, transport: Transport) -> list[Tensor]:
    """Send a payload to each owner; return those sent to this one, in the order of their senders."""
    rank, size = at.world.rank, at.world.size
    slots: list[Tensor | None] = [None] * size**2  # slot src·P+dst goes from src to dst
    slots[rank * size : (rank + 1) * size] = wires
    cuts = parcel.x.cut(size)
    capacity = [lane.recipe.up[1].capacity(cuts[slot % size].spec, at) for slot in range(size**2)]
    transfers = lane.recipe.exchange.transfers(at.world, at)
    arrived = ended(transport.carry(slots, transfers, capacity, lane.group.outer, Entry("exchange", parcel.label)))
    return _present(arrived[rank::size])


def _from_owners(lane: Lane, parcel: Parcel, wire: Tensor, at: At, transport: Transport) -> list[Tensor]:
    """Send this owner's sum to everybody; return every owner's."""
    assert isinstance(lane.recipe.exchange, TwoWay)
    slots: list[Tensor | None] = [None] * at.world.size
    slots[at.world.rank] = wire
    capacity = [lane.recipe.down[1].capacity(cut.spec, at) for cut in parcel.x.cut(at.world.size)]
    transfers = lane.recipe.exchange.down(at.world)
    entry = Entry("exchange", parcel.label)
    return _present(ended(transport.carry(slots, transfers, capacity, lane.group.outer, entry)))


def _present(slots: list[Tensor | None]) -> list[Tensor]:
    found = [slot for slot in slots if slot is not None]
    assert len(found) == len(slots), "a payload did not arrive"
    return found


def _peers(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> None:
    """The bucket becomes the mean of this worker's own and what its peers sent."""
    codec, world = lane.recipe.up[1], at.world
    encoded = drive(codec.encode(parcel.x, {}, at), _answerer(lane, parcel, transport))
    transfers = lane.recipe.exchange.transfers(world, at)
    if any(t.src == world.rank for t in transfers):
        transport.ledger.produced(encoded.payload.nbytes)
    slots: list[Tensor | None] = [None] * world.size
    slots[world.rank] = encoded.payload.wire
    capacity = [codec.capacity(parcel.x.spec, at)] * world.size
    arrived = ended(transport.carry(slots, transfers, capacity, lane.group.outer, Entry("exchange", parcel.label)))
    heard = [wire for rank, wire in enumerate(arrived) if wire is not None and rank != world.rank]
    for wire in heard:
        codec.decode_(parcel.x, Payload(wire), {}, at)
    parcel.x.flat.mul_(lane.recipe.center.weigh(0, 1 + len(heard)))


_PATTERNS: dict[str, Callable[[Lane, Parcel, At, Transport], Iterator[None] | None]] = {
    "reduce": _reduce,
    "gather": _gather,
    "owners": _owners,
    "peers": _peers,
}


def _compress(lane: Lane, parcel: Parcel, at: At, transport: Transport) -> Compressed:
    assert parcel.kept is not None
    return drive(lane.compressor.compress(parcel.x, parcel.kept, at), _answerer(lane, parcel, transport))


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
    lane.compressor.expand_(parcel.x, payloads, parcel.kept, at)


def _settle(lane: Lane, parcel: Parcel, done: Compressed, at: At) -> None:
    assert parcel.kept is not None
    lane.compressor.settle(done, parcel.x, parcel.kept, at)
