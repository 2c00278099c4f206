"""Selecting a large part of a tensor, as in warm-up: a bit for every place instead of a list, compiled by Numba.

    sample ─▶ low ≤ threshold ≤ high, almost surely ─▶ one pass counts what is above, keeps what is between
           ─▶ the exact threshold is among the latter ─▶ one pass writes bits and values

Bits of several tensors follow each other without a gap, lowest first, as `codecs.bitpack.pack_bits` writes them.
"""
# mypy: disable-error-code="untyped-decorator,import-untyped,assignment"

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_LINE = 16  # elements of a cache line
_LINES = 4096
_SURE = 5.0  # standard errors between a sampled quantile and the true one


def _place_of_lowest(typingctx: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _number_of_ones(typingctx: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


_lowest: Any = intrinsic(_place_of_lowest)  # the place of a word's lowest one: an instruction of the processor
_ones: Any = intrinsic(_number_of_ones)  # so is how many there are


@numba.njit(cache=True, nogil=True, inline="always")
def _word(flags: Any) -> Any:
    """64 bytes that are 0 or 1 as bits: a product moves eight of them next to each other."""
    word = np.uint64(0)
    for k in range(8):
        eight = np.uint64(0)
        for j in range(8):
            eight |= np.uint64(flags[8 * k + j]) << np.uint64(8 * j)
        word |= ((eight * np.uint64(0x0102040810204080)) >> np.uint64(56)) << np.uint64(8 * k)
    return word


@numba.njit(cache=True, nogil=True)
def _between(v: Any, low: Any, high: Any, kept: Any) -> Any:
    """How many magnitudes are above ``high``; those from ``low`` to there go to ``kept``. −1: there is no room."""
    above, n, room, flags = 0, 0, len(kept) - 64, np.empty(64, np.uint8)
    for chunk in range(len(v) // 64):
        base, top = 64 * chunk, np.int32(0)
        for j in range(64):
            size = abs(v[base + j])
            top += np.int32(size > high)
            flags[j] = np.uint8((size >= low) & (size <= high))
        above += top
        word = _word(flags)
        if n > room:
            return above, -1
        while word:
            kept[n] = abs(v[base + np.int64(_lowest(word))])
            word &= word - np.uint64(1)
            n += 1
    for j in range(len(v) // 64 * 64, len(v)):
        size = abs(v[j])
        above += size > high
        if low <= size <= high:
            kept[n] = size
            n += 1
    return above, n


@numba.njit(cache=True, nogil=True, inline="always")
def _put(word: Any, place: int, words: Any) -> None:
    words[place >> 6] |= word << np.uint64(place & 63)
    if place & 63:
        words[(place >> 6) + 1] |= word >> np.uint64(64 - (place & 63))


@numba.njit(cache=True, nogil=True)
def _mark(v: Any, edge: Any, passed: int, at: int, words: Any, values: Any) -> int:
    """Mark |v| ≥ edge, but not the last ``passed`` that equal it, from place ``at`` on; their values; their number."""
    n, flags, end = 0, np.zeros(64, np.uint8), len(v)
    while passed:  # back to the first that is passed over
        end -= 1
        passed -= abs(v[end]) == edge
    plain = end // 64
    for chunk in range(plain):
        base = 64 * chunk
        for j in range(64):
            flags[j] = np.uint8(abs(v[base + j]) >= edge)
        word = _word(flags)
        _put(word, at + base, words)
        while word:
            values[n] = v[base + np.int64(_lowest(word))]
            word &= word - np.uint64(1)
            n += 1
    for j in range(64 * plain, len(v)):
        if abs(v[j]) > edge or (abs(v[j]) == edge and j < end):
            words[(at + j) >> 6] |= np.uint64(1) << np.uint64((at + j) & 63)
            values[n] = v[j]
            n += 1
    return n


def threshold(v: Any, wanted: int) -> tuple[Any, int]:
    """The ``wanted``-th largest magnitude, and how many that equal it are too many.

    >>> threshold(np.array([3, -1, 2, -2, 0.5], np.float32), 2)
    (np.float32(2.0), 1)
    """
    lines = len(v) // _LINE
    if lines > 4 * _LINES:
        sample = np.abs(v[: lines * _LINE].reshape(lines, _LINE)[:: lines // _LINES].reshape(-1))
        share, last = wanted / len(v), len(sample) - 1
        slack = _SURE * (share * (1 - share) / len(sample)) ** 0.5 + 1e-4
        ends = [int(last * min(1.0, max(0.0, 1 - share + side))) for side in (-slack, slack)]
        low, high = np.partition(sample, ends)[ends]
        kept = np.empty(int(len(v) * 6 * slack) + 128, np.float32)
        above, n = _between(v, low, high, kept)
        if n >= 0 and above < wanted <= above + n:
            return _last(kept[:n], wanted - above)
    return _last(np.abs(v), wanted)


def _last(size: Any, wanted: int) -> tuple[Any, int]:
    edge = np.partition(size, len(size) - wanted)[len(size) - wanted]
    return edge, int((size >= edge).sum()) - wanted


def mark(v: Any, wanted: int, at: int, words: Any, values: Any) -> None:
    """Bits and values of the ``wanted`` largest of v; among equals the lower position wins."""
    taken = _mark(v, *threshold(v, wanted), at, words, values)
    assert taken == wanted, (taken, wanted)


@numba.njit(cache=True, nogil=True)
def count_marked(words: Any, numel: int) -> int:
    """How many places are marked; −1 if some are beyond ``numel``."""
    n = 0
    for w in range(len(words)):
        rest, inside = words[w], numel - 64 * w
        if inside < 64 and rest >> np.uint64(max(0, inside)):
            return -1
        n += np.int64(_ones(rest))
    return n


@numba.njit(cache=True, nogil=True, inline="always")
def _inside(word: Any, w: int, low: int, high: int) -> Any:
    """The bits of word w that are from ``low`` to before ``high``."""
    if w == low >> 6:
        word &= ~np.uint64(0) << np.uint64(low & 63)
    if w == high >> 6:
        word &= (np.uint64(1) << np.uint64(high & 63)) - np.uint64(1)
    return word


@numba.njit(cache=True, nogil=True)
def add_marked(out: Any, begins: Any, shifts: Any, words: Any, values: Any, factor: Any) -> None:
    """Add values where bits are set: tensors that begin at ``begins`` in the bits lie ``shifts`` further in ``out``."""
    n = 0
    for t in range(len(begins) - 1):
        low, high = begins[t], begins[t + 1]
        for w in range(low >> 6, (high + 63) >> 6):
            rest = _inside(words[w], w, low, high)
            base = (w << 6) + shifts[t]
            while rest:
                out[base + np.int64(_lowest(rest))] += factor * values[n]
                rest &= rest - np.uint64(1)
                n += 1


@numba.njit(cache=True, nogil=True)
def zero_marked(out: Any, begins: Any, shifts: Any, words: Any) -> None:
    """Zero where bits are set."""
    for t in range(len(begins) - 1):
        low, high = begins[t], begins[t + 1]
        for w in range(low >> 6, (high + 63) >> 6):
            rest = _inside(words[w], w, low, high)
            base = (w << 6) + shifts[t]
            while rest:
                out[base + np.int64(_lowest(rest))] = 0
                rest &= rest - np.uint64(1)


def words_of(bits: Any) -> Any:
    """Bytes of bits as words of 64."""
    padded = np.zeros(-(-len(bits) // 8) * 8, np.uint8)
    padded[: len(bits)] = bits
    return padded.view(np.uint64)
