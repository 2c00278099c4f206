"""The `grain` axis: in which pieces a model is exchanged. An execution hint: laws prove it invisible to the result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grain:
    """Tensors are packed into a bucket until it holds ``nbytes`` or more; the one that is ready first may be smaller.

    A small first bucket lets the exchange start early in the backward pass.
    """

    nbytes: int
    first_nbytes: int


def bucket(mebibytes: float = 25.0, first_mebibytes: float = 1.0) -> Grain:
    """Buckets of about equal size, the first one small: overlaps well and costs few messages."""
    return Grain(int(mebibytes * 2**20), int(first_mebibytes * 2**20))


def tensor() -> Grain:
    """One message per tensor: the exchange of a layer starts as soon as its gradient is ready."""
    return Grain(0, 0)


def whole() -> Grain:
    """One message for everything."""
    return Grain(2**62, 2**62)
