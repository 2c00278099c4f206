"""Single passes over a bucket that write or read packed codes, where somebody offers them.

`tightwire.kernels` does; codecs never import it, and do without where nobody offers anything. The law: bytes and values
equal those of the codec's own way, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor

from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.codecs.stretches import Per


class Passes(Protocol):
    """What `onebit` and `terngrad` do to every element, each in one pass."""

    def signs(self, x: Bucket, mean_R2: Tensor) -> tuple[Tensor, Tensor]:
        """A bit for every x ≥ 0, eight a byte, and the mean of its row and side that each stands for."""
        ...

    def add_signs_(self, out: Bucket, byte_B: Tensor, mean_R2: Tensor) -> None:
        """Out ← out + what such bits stand for."""
        ...

    def ternary(self, x: Bucket, value_N: Tensor, scale_S: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """Codes drawn for values of x's layout, four a byte, and ±scale or 0 that each stands for."""
        ...

    def add_ternary_(self, out: Bucket, byte_B: Tensor, scale_S: Tensor) -> None:
        """Out ← out + what such codes stand for."""
        ...


@runtime_checkable
class Rounding(Protocol):
    """What `qsgd` does to every element, in one pass. Not everybody who offers passes has it."""

    def levels(self, x: Bucket, norm_B: Tensor, bucket: int, value_L: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """A code drawn for every element (the sign above the level) and what it stands for.

        ``value_L`` is what each level stands for in a bucket of norm 1.
        """
        ...

    def add_levels_(self, out: Bucket, code_N: Tensor, norm_B: Tensor, bucket: int, value_L: Tensor) -> None:
        """Out ← out + what such codes stand for."""
        ...


@runtime_checkable
class Figures(Protocol):
    """What rows, tensors or buckets come to, all in one pass. Not everybody who offers passes has it."""

    def means(self, x: Bucket) -> Tensor:
        """The mean below zero and the mean from zero on of each row, 0 for a side that is empty."""
        ...

    def sizes(self, x: Bucket, per: Per) -> tuple[Tensor, Tensor]:
        """The sum of squares (float64) and the largest magnitude of each stretch."""
        ...


Offer = Callable[[Bucket], Passes | None]
_offers: list[Offer] = []


def offer(maker: Offer) -> None:
    """Offer passes; the maker returns None for a bucket that they are not for."""
    if maker not in _offers:
        _offers.append(maker)


def withdraw(maker: Offer) -> None:
    """Offer them no more."""
    _offers.remove(maker)


def passes_for(x: Bucket) -> Passes | None:
    """The first passes that are offered for this bucket."""
    return next((found for maker in _offers if (found := maker(x)) is not None), None)


def rounding_for(x: Bucket) -> Rounding | None:
    """The first passes that are offered for this bucket and can round."""
    for maker in _offers:
        found: object = maker(x)
        if isinstance(found, Rounding):
            return found
    return None


def figures_for(x: Bucket) -> Figures | None:
    """The first passes that are offered for this bucket and know figures."""
    for maker in _offers:
        found: object = maker(x)
        if isinstance(found, Figures):
            return found
    return None
