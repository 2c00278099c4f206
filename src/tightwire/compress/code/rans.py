"""rANS coding of a sequence of symbols: as near to the entropy as frequencies of 12 bits (16 for many symbols) allow.

Duda: Asymmetric numeral systems. arXiv 1311.2540; four states interleaved as Giesen, arXiv 1402.3392, has it. Bytes:

    how many kinds of symbols there are (`code.kinds`); for more than one then
    for each of the alphabet: frequency + 1 in Elias' gamma code
    four states of 32 bits, words of 16
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.bits import BitReader, BitWriter, Reader
from tightwire.compress.code.kinds import read_kinds, write_kinds
from tightwire.compress.code.protocol import Codes
from tightwire.compress.shared_weights import code_type
from tightwire.kernels.entropy import entropy


@dataclass(frozen=True)
class Rans:
    """Four-way rANS."""

    name: str = "rans"

    def bits(self, count_A: NDArray[np.int64]) -> float:
        """Entropy, table and states."""
        count = count_A[count_A > 0].astype(np.float64)
        if len(count) < 2:
            return 0.0
        share = count / count.sum()
        table = float(np.log2(np.maximum(2, share * (1 << _scale(len(count_A))))).sum()) * 2 + len(count_A)
        return float(-(count * np.log2(share)).sum()) + table + 128

    def write(self, symbol_N: Codes, alphabet: int) -> bytes:
        """Symbols below ``alphabet`` with their table."""
        count_A = np.bincount(symbol_N, minlength=alphabet)
        begin = write_kinds(count_A)
        if np.count_nonzero(count_A) < 2:
            return begin
        freq_A = frequencies(count_A, _scale(alphabet))
        bits = BitWriter()
        for freq in freq_A.tolist():
            bits.gamma(freq + 1)
        below_A = (np.cumsum(freq_A) - freq_A).astype(np.uint32)
        body = entropy().rans_encode(symbol_N, freq_A, below_A=below_A, scale=_scale(alphabet))
        return begin + bits.bytes() + bytes(body.tobytes())

    def read(self, payload: bytes, *, count: int, alphabet: int) -> Codes:
        """The symbols that `write` wrote; refuses what cannot be its bytes."""
        reader = Reader(payload)
        few = read_kinds(reader, count=count, alphabet=alphabet)
        if few is not None:
            return few
        freq_A = _read_table(reader, alphabet)
        symbol_T = np.repeat(np.arange(alphabet), freq_A).astype(np.uint16)
        below_A = np.cumsum(freq_A) - freq_A
        step_T = ((freq_A[symbol_T] - 1) << 16) + np.arange(len(symbol_T)) - below_A[symbol_T]
        body = np.frombuffer(reader.rest(), np.uint8)
        if len(body) < 16 or len(body) % 2:
            raise PayloadError(f"{len(body)} bytes cannot be four rANS states and words")
        out_N: Codes = np.empty(count, code_type(alphabet - 1))
        if not entropy().rans_decode(body, symbol_T, step_T.astype(np.uint32), out_N):
            raise PayloadError(f"rANS words do not end after {count} symbols")
        return out_N


def _scale(alphabet: int) -> int:
    return 12 if alphabet <= 1024 else 16


def frequencies(count_A: NDArray[np.int64], scale: int) -> NDArray[np.uint32]:
    """Counts in parts of 2ˢ, at least 1 for what occurs; at least two do.

    >>> frequencies(np.array([999, 1, 0]), 4).tolist()
    [15, 1, 0]
    """
    total = 1 << scale
    freq_A = np.where(count_A > 0, np.maximum(1, count_A * total // count_A.sum()), 0)
    missing = total - int(freq_A.sum())
    while missing:
        # one more (or less) where it saves (or costs) most (or fewest) bits: count·log2((f ± 1)/f)
        step = 1 if missing > 0 else -1
        can = np.flatnonzero(freq_A > (0 if step > 0 else 1))
        gain = count_A[can] * np.log2((freq_A[can] + step) / freq_A[can])
        some = can[np.argsort(-gain, kind="stable")[: min(abs(missing), -(-len(can) // 2))]]
        freq_A[some] += step
        missing -= step * len(some)
    return freq_A.astype(np.uint32)


def _read_table(reader: Reader, alphabet: int) -> NDArray[np.int64]:
    scale = _scale(alphabet)
    bits = BitReader(reader, alphabet * (2 * scale + 3) // 8 + 8)
    freq_A = np.array([bits.gamma(scale) - 1 for _ in range(alphabet)], np.int64)
    bits.close()
    if int(freq_A.sum()) != 1 << scale:
        raise PayloadError(f"frequencies add to {int(freq_A.sum())} where {1 << scale} belong")
    return freq_A
