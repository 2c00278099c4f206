"""What every coder of codes promises."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""Whole numbers from 0 (pruned) to the number of centroids."""


class Coder(Protocol):
    """Codes to bytes and back: ``decode(encode(x)) == x``."""

    @property
    def name(self) -> str:
        """As it stands in a file."""

    def encode(self, code_N: Codes, *, width: int, centroids: int) -> bytes | None:
        """The bytes of a matrix with ``width`` codes a row, or None where this coder cannot or should not."""

    def decode(self, payload: bytes, *, numel: int, width: int, centroids: int) -> Codes:
        """Exactly the codes that went in. Bytes that are none of `encode`'s raise `PayloadError`."""


class SymbolCoder(Protocol):
    """A sequence of symbols to bytes and back, one distribution for all."""

    @property
    def name(self) -> str:
        """As it stands in a file."""

    def bits(self, count_A: NDArray[np.int64]) -> float:
        """About how many bits a sequence with these counts of symbols takes, its table included."""

    def write(self, symbol_N: Codes, alphabet: int) -> bytes:
        """Symbols below ``alphabet`` with their table."""

    def read(self, payload: bytes, *, count: int, alphabet: int) -> Codes:
        """The symbols that `write` wrote; refuses what cannot be its bytes."""
