"""What a lane sends to its shards and gets back, between the device where it computes and the wire.

    backward   a bucket of gradients is complete ─▶ on its way to the host, while the backward pass goes on
    push       fill, remember, encode ─▶ on its way, while the next bucket is encoded; waited for when it is sent
    pull       a shard has replied ─▶ its centre is on its way to the device, while the next shard is asked;
               decoding waits for it bucket by bucket, on the device

Shards in this process are given tensors as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from tightwire.algebra.codec import Codec, Payload
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.links.staging import Moving, Staging
from tightwire.run.lane import Lane
from tightwire.run.parcel import Parcel
from tightwire.run.ranges import Parted, cut, part
from tightwire.server.events import Center
from tightwire.telemetry.ledger import Ledger


class Freight:
    """One lane's, over so many shards; ``afar`` says which of them are in another process."""

    def __init__(self, lane: Lane, shards: int, down: Codec, staging: Staging) -> None:
        self._lane = lane
        self._shards = shards
        self._down = down
        self._staging = staging
        self._ready: dict[str, Moving] = {}
        self.afar = [False] * shards

    def ready(self, parcel: Parcel) -> None:
        """A bucket of gradients is complete; where it travels as it is, it may start."""
        if self._lane.plain and self._lane.leaf.inner is None and any(self.afar):
            self._ready[parcel.label] = self._staging.lift(parcel.x.flat)

    def pack(self, at: At, ledger: Ledger) -> tuple[dict[str, Parted], list[dict[str, Moving]]]:
        """Every bucket's contribution by its label, and what is on its way to each shard."""
        sent: dict[str, Parted] = {}
        wires: list[dict[str, Moving]] = [{} for _ in range(self._shards)]
        for parcel in self._lane.parcels:
            if not self._lane.early:
                self._lane.fill(parcel)
            sent[parcel.label] = done = part(parcel, self._lane.compressor, self._shards, at)
            ledger.produced(done.nbytes)
            for shard, moving in enumerate(self._leave(parcel, done)):
                wires[shard][parcel.label] = moving
        return sent, wires

    def _leave(self, parcel: Parcel, done: Parted) -> Iterator[Moving]:
        whole = self._ready.pop(parcel.label, None)
        pieces = parcel.x.spec.cut(self._shards) if self._shards > 1 else ((0, parcel.x.spec),)
        for wire, afar, (start, spec) in zip(done.wires, self.afar, pieces, strict=True):
            if not afar:
                yield Moving(wire)
            else:
                yield self._staging.lift(wire) if whole is None else whole.part(start, spec.numel)

    def arrived(self, shard: int, reply: Any) -> Any:
        """A shard's reply; a centre starts on its way to the device."""
        if not isinstance(reply, Center) or not self.afar[shard]:
            return reply
        return replace(reply, wires=_Arriving({name: self._staging.lower(wire) for name, wire in reply.wires.items()}))

    def decode(self, replies: list[Any], at: At) -> dict[str, Bucket]:
        """The centre, by the label of its buckets."""
        decoded = {}
        for parcel in self._lane.parcels:
            decoded[parcel.label] = Bucket.zeros(parcel.x.spec)
            for reply, piece in zip(replies, cut(decoded[parcel.label], self._shards), strict=True):
                self._down.decode_(piece, Payload(reply.wires[parcel.label].to(piece.flat.device)), {}, at)
        return decoded


class _Arriving(Mapping[str, Tensor]):
    """Tensors that are waited for when they are looked at."""

    def __init__(self, moving: dict[str, Moving]) -> None:
        self._moving = moving

    def __getitem__(self, name: str) -> Tensor:
        return self._moving[name].here()

    def __iter__(self) -> Iterator[str]:
        return iter(self._moving)

    def __len__(self) -> int:
        return len(self._moving)
