"""The `codec` axis: in which bytes a value travels.

A codec turns a bucket into a payload and says, beside it, what the payload really carries (`Sent`), so that a
memory can keep exactly the rest. A codec never sees a link. One that needs several rounds (low rank, shared
scalers) is a generator: it *asks* the world for a sum, a mean, a maximum or everybody's tensor and is sent the reply:

    encode ── Ask("sum", MQ) ──▶ whoever drives it ── reply ──▶ encode ── return Encoded(payload, sent)
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from tightwire.algebra.tensors import Bucket, Segment, Spec, State
from tightwire.algebra.world import At

R = TypeVar("R")
Combines = Literal["sum", "gather"]
"""``sum``: payloads of several workers may be added on the way (all-reduce). ``gather``: each must arrive whole."""


@dataclass(frozen=True)
class Ask:
    """A question to all workers. The reply to ``gather`` has one more leading dimension: the ranks."""

    kind: Literal["sum", "mean", "max", "gather"]
    tensor: Tensor


@dataclass(frozen=True)
class Payload:
    """What one worker hands to the wire; ``local`` is context that every worker already has and that stays home."""

    wire: Tensor
    local: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes on the wire."""
        return self.wire.numel() * self.wire.element_size()


class Sent(Protocol):
    """What a payload really carries, without making it dense."""

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        ...

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Bucket ← 0 at every position the payload carries (momentum factor masking)."""
        ...


@dataclass(frozen=True)
class Encoded:
    """The end of an encoding."""

    payload: Payload
    sent: Sent


Encoding = Generator[Ask, Tensor, Encoded]


@runtime_checkable
class Codec(Protocol):
    """A way to write a bucket in bytes.

    Laws (`tightwire.testing.codecs`): what `decode_` adds is what `Sent` subtracts; a payload never exceeds
    `capacity`; payloads of ``sum`` codecs add; the same bucket, state and `At` give the same bytes; cutting a
    bucket differently changes nothing.
    """

    @property
    def combines(self) -> Combines:
        """How payloads of several workers come together."""
        ...

    @property
    def identity(self) -> bool:
        """True if the payload is the bucket itself, so that an exchange may run in place."""
        ...

    def init(self, spec: Spec) -> State:
        """State before the first step; equal on every rank, then and always."""
        ...

    def encode(self, x: Bucket, state: State, at: At) -> Encoding:
        """Encode ``x`` (which stays as it is), updating ``state`` in place."""
        ...

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + what the payload carries. The wire may come back as bytes; the state may learn from it."""
        ...

    def capacity(self, spec: Spec, at: At) -> int:
        """The most bytes a payload for this layout can have: equal on all ranks, known before encoding."""
        ...


@runtime_checkable
class UsesFactors(Protocol):
    """A codec that can write a matrix as its outer factors, so that the runtime should look for them (`Bucket.aside`).

    Whatever it finds there, it must send what the bucket holds: a memory or a hook may have changed that since.
    """

    def by_factors(self, segment: Segment, *, samples: int, workers: int) -> bool:
        """Whether a matrix goes by factors of so many rows, at most, on each worker."""
        ...


@runtime_checkable
class Unbiased(Protocol):
    """A codec that rounds or selects at random: over all seeds, what its payloads carry has a known mean.

    Law (`tightwire.testing.codecs.right_on_average`): the mean over many moments is `expected`.
    """

    def expected(self, x: Bucket, at: At) -> Tensor:
        """That mean, as a flat tensor: ``x`` itself, or what of it the codec has room for."""
        ...


@runtime_checkable
class Sparse(Protocol):
    """A codec whose payload is positions and values, so that it can be read without making anything dense."""

    def read(self, wire: Tensor, spec: Spec, at: At) -> tuple[Tensor, Tensor]:
        """Positions in the flat bucket and float32 values; a position may come with a value of 0."""
        ...


def one_round(encode: Callable[[Any, Bucket, State, At], Encoded]) -> Callable[[Any, Bucket, State, At], Encoding]:
    """Make an ordinary function the `encode` of a codec that asks nothing."""

    @wraps(encode)
    def encoding(self: Any, x: Bucket, state: State, at: At) -> Encoding:
        yield from ()  # asks nothing, but is a generator
        return encode(self, x, state, at)

    return encoding


def drive(asking: Generator[Ask, Tensor, R], answer: Callable[[Ask], Tensor]) -> R:
    """Run an encoding (or anything else that asks) to its end, answering what it asks."""
    try:
        ask = next(asking)
        while True:
            ask = asking.send(answer(ask))
    except StopIteration as stop:
        result: R = stop.value
        return result


class DenseSent:
    """`Sent` for payloads that carry something at every position."""

    __slots__ = ("flat",)

    def __init__(self, flat: Tensor) -> None:
        self.flat = flat

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        bucket.flat.sub_(self.flat)

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Every position was sent."""
        bucket.flat.zero_()


class SparseSent:
    """`Sent` for payloads that carry ``value_K`` at the flat positions ``index_K``, each at most once."""

    __slots__ = ("index_K", "value_K")

    def __init__(self, index_K: Tensor, value_K: Tensor) -> None:
        self.index_K = index_K
        self.value_K = value_K

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        bucket.flat.index_add_(0, self.index_K, self.value_K, alpha=-1)

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Forget what was sent."""
        bucket.flat.index_fill_(0, self.index_K, 0)
