"""A bucket that travels in pieces, each by itself: to the shards of a server, or to the owners of a collective.

bucket   ├──── rows 0…k ────┤├──── rows k+1…n ────┤        `Spec.cut`: ranges of rows, one for each shard
wires          wire 0               wire 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tightwire.algebra.codec import Ask, Sent, drive
from tightwire.algebra.compressor import Compressed, Compressor, refuse_not_finite
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.run.parcel import Parcel


def cut(bucket: Bucket, pieces: int) -> list[Bucket]:
    """Views of a bucket's ranges of rows."""
    return [bucket] if pieces == 1 else bucket.cut(pieces)


@dataclass(frozen=True)
class Pieces:
    """What was sent of a bucket that travelled in pieces; None where a piece does not count."""

    sent: Sequence[Sent | None]

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        for piece, sent in zip(cut(bucket, len(self.sent)), self.sent, strict=True):
            if sent is not None:
                sent.subtract_from_(piece)

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Forget what was sent."""
        for piece, sent in zip(cut(bucket, len(self.sent)), self.sent, strict=True):
            if sent is not None:
                sent.zero_where_sent_(piece)


@dataclass(frozen=True)
class Parted:
    """One worker's contribution, piece by piece; ``whole`` if a compressor made it in one."""

    value: Bucket
    wires: tuple[Tensor, ...]
    sent: tuple[Sent, ...]
    whole: Compressed | None = None

    @property
    def nbytes(self) -> int:
        """Bytes on the wire."""
        return sum(wire.nbytes for wire in self.wires)


def part(parcel: Parcel, compressor: Compressor, pieces: int, at: At) -> Parted:
    """Remember, then encode every range of rows by itself. One piece goes as the compressor likes it best."""
    assert parcel.kept is not None
    if pieces == 1:
        done = drive(compressor.compress(parcel.x, parcel.kept, at), nobody_answers)
        return Parted(done.value, (done.payload.wire,), (done.sent,), done)
    if compressor.memory.keeps or not compressor.codec.identity:
        refuse_not_finite(parcel.x)
    value = compressor.memory.before(parcel.x, parcel.kept.memory, at)
    encoded = [drive(compressor.codec.encode(piece, {}, at), nobody_answers) for piece in cut(value, pieces)]
    return Parted(value, tuple(e.payload.wire for e in encoded), tuple(e.sent for e in encoded))


def settle(parcel: Parcel, compressor: Compressor, done: Parted, dropped: Sequence[bool], at: At) -> None:
    """Keep what was not sent, and take back the pieces that their receivers dropped."""
    assert parcel.kept is not None
    if done.whole is not None:
        compressor.settle(done.whole, parcel.x, parcel.kept, at)
    else:
        compressor.memory.after(done.value, Pieces(done.sent), parcel.x, parcel.kept.memory, at)
    if any(dropped):
        back = [sent if unused else None for sent, unused in zip(done.sent, dropped, strict=True)]
        compressor.memory.refund(Pieces(back), parcel.kept.memory)


def nobody_answers(ask: Ask) -> Tensor:
    """Codecs that ask all workers have nobody to ask here."""
    raise RecipeError("a codec that asks all workers cannot be used with a server; use exchange=allreduce()")
