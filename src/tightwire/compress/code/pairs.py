"""Pairs of gap and code, each coded by a symbol coder: the paper's layout. Or, where few are zero, codes alone.

byte r (bits of a gap; 0: no gaps, every position has its code)
r > 0: varint pairs, varint bytes of the gaps, gaps;   then the codes
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tightwire.compress.code.bits import Reader, varint
from tightwire.compress.code.protocol import Codes, SymbolCoder
from tightwire.compress.code.relative import MOST_WIDTH, absolute, relative


@dataclass(frozen=True)
class Pairs:
    """Relative indices and codes. ``width`` is r of the paper (4 or 5 there, 0 for none); None takes the best."""

    symbols: SymbolCoder
    width: int | None = None

    @property
    def name(self) -> str:
        """That of the symbol coder."""
        return self.symbols.name

    def encode(self, code_N: Codes, *, width: int, centroids: int) -> bytes:
        """Gaps, then codes."""
        r = best_width(code_N, centroids, self.symbols) if self.width is None else self.width
        if not r:
            return bytes([0]) + self.symbols.write(code_N, centroids + 1)
        gap_T, code_T = relative(code_N, r)
        gaps = self.symbols.write(gap_T, 1 << r)
        return bytes([r]) + varint(len(gap_T)) + varint(len(gaps)) + gaps + self.symbols.write(code_T, centroids + 1)

    def decode(self, payload: bytes, *, numel: int, width: int, centroids: int) -> Codes:
        """Positions from gaps, codes at them."""
        gap_T, code_T = self._read(payload, numel, centroids)
        return code_T if gap_T is None else absolute(gap_T, code_T, numel)

    def split(self, payload: bytes, *, numel: int, width: int, centroids: int) -> int:
        """Bytes that tell positions."""
        reader = Reader(payload)
        if not reader.varint(MOST_WIDTH):
            return 0
        reader.varint(numel)
        return reader.varint(reader.left)

    def _read(self, payload: bytes, numel: int, centroids: int) -> tuple[Codes | None, Codes]:
        reader = Reader(payload)
        r = reader.varint(MOST_WIDTH)
        if not r:
            return None, self.symbols.read(reader.rest(), count=numel, alphabet=centroids + 1)
        stored = reader.varint(numel)
        gaps = reader.take(reader.varint(reader.left))
        gap_T = self.symbols.read(gaps, count=stored, alphabet=1 << r)
        return gap_T, self.symbols.read(reader.rest(), count=stored, alphabet=centroids + 1)


def best_width(code_N: Codes, centroids: int, symbols: SymbolCoder) -> int:
    """The r with the fewest bits under a symbol coder; 0 where codes alone are fewer."""
    bits = {0: symbols.bits(np.bincount(code_N, minlength=centroids + 1))}
    index_K = np.flatnonzero(code_N)
    gap_K = np.diff(index_K, prepend=-1) - 1
    count_A = np.bincount(code_N[index_K], minlength=centroids + 1)
    for r in range(1, MOST_WIDTH + 1):
        count_A[0] = filler = int((gap_K >> r).sum())
        gap_A = np.bincount(gap_K & ((1 << r) - 1), minlength=1 << r)
        gap_A[-1] += filler
        bits[r] = symbols.bits(gap_A) + symbols.bits(count_A)
    return min(bits, key=lambda r: bits[r])
