"""Uncompressed: the bytes of the tensor itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.codec import Combines, DenseSent, Encoded, Payload, one_round
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At


@dataclass(frozen=True)
class Dense:
    """Payload = x. Every position, every bit.

    >>> Dense().capacity(Spec.pack([("w", (10,))]), At())
    40
    """

    combines: ClassVar[Combines] = "sum"
    identity: ClassVar[bool] = True

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Two copies: an exchange adds to its payload in place, and what was sent must outlive the memory's update."""
        return Encoded(Payload(x.flat.clone()), DenseSent(x.flat.clone()))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + wire."""
        if payload.nbytes != out.spec.nbytes:
            raise PayloadError(f"a dense payload of {payload.nbytes} bytes where {out.spec.nbytes} belong")
        out.flat.add_(payload.wire.view(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """All bytes, always."""
        return spec.nbytes


def dense() -> Dense:
    """Uncompressed."""
    return Dense()


examples = (dense(),)
