"""One-bit and ternary codes and levels of a range of a bucket in one go, compiled by Numba: `codecs.passes` on a CPU.

A block is packed and rebuilt while it is in the cache. Tensors and rows are walked in stretches, so that the inner
loops have nothing to decide but the sign or the draw, and vectorise. The arithmetic is that of `codecs.onebit`,
`codecs.terngrad`, `codecs.qsgd` and `codecs.dice`, operation by operation: results are equal bit for bit.
"""
# mypy: disable-error-code="untyped-decorator"
# ruff: noqa: PLR0913, PLR0917

from __future__ import annotations

from typing import Any

import numba
import numpy as np

BLOCK = 1 << 14


@numba.njit(cache=True, nogil=True)
def pack_signs(
    x: Any, mean: Any, rebuilt: Any, byte: Any, begin: Any, end: Any, base: Any, width: Any, first: int, last: int
) -> None:
    """Bits of x ≥ 0 from ``first``, a multiple of 8, to ``last``, and the mean of the row on that side."""
    s = np.searchsorted(end, first, side="right")
    for low in range(first, last, BLOCK):
        high = min(low + BLOCK, last)
        for b in range(low // 8, high // 8):
            eight = np.uint8(0)
            for j in range(8):
                eight |= np.uint8(np.uint8(x[8 * b + j] >= 0) << j)
            byte[b] = eight
        if high % 8:
            byte[high // 8] = 0
            for i in range(high // 8 * 8, high):
                byte[i // 8] |= np.uint8(x[i] >= 0) << (i % 8)
        at = low
        while at < high:
            while end[s] <= at:
                s += 1
            row = (at - begin[s]) // width[s]
            stop = min(high, begin[s] + (row + 1) * width[s])
            below, above = mean[base[s] + row, 0], mean[base[s] + row, 1]
            for i in range(at, stop):
                rebuilt[i] = above if x[i] >= 0 else below
            at = stop


@numba.njit(cache=True, nogil=True)
def add_signs(
    out: Any, mean: Any, byte: Any, begin: Any, end: Any, base: Any, width: Any, first: int, last: int
) -> None:
    """Add the mean of the row on the side that each bit says."""
    s, at = np.searchsorted(end, first, side="right"), first
    while at < last:
        while end[s] <= at:
            s += 1
        row = (at - begin[s]) // width[s]
        stop = min(last, begin[s] + (row + 1) * width[s])
        below, above = mean[base[s] + row, 0], mean[base[s] + row, 1]
        head, tail = min(stop, (at + 7) // 8 * 8), stop // 8 * 8
        for i in range(at, head):
            out[i] += above if (byte[i // 8] >> (i % 8)) & 1 else below
        for b in range(head // 8, tail // 8):
            eight = np.int32(byte[b])
            for j in range(8):
                out[8 * b + j] += above if eight & (1 << j) else below
        for i in range(max(head, tail), stop):
            out[i] += above if (byte[i // 8] >> (i % 8)) & 1 else below
        at = stop


@numba.njit(cache=True, nogil=True, inline="always")
def _drawn(word: Any) -> Any:
    """`codecs.dice`: a word that was counted as a number in [0, 1)."""
    word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x7FEB352D))
    word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0x846CA68B))
    word = np.uint32(word ^ (word >> np.uint32(16)))
    return np.float32(word >> np.uint32(8)) * np.float32(2.0**-24)


@numba.njit(cache=True, nogil=True)
def pack_ternary(
    value: Any, scale: Any, start: Any, gamma: Any, rebuilt: Any, byte: Any, begin: Any, end: Any, first: int, last: int
) -> None:
    """Draw a code for every value from ``first``, a multiple of 4, on: 1 is scale, 2 is −scale, 0 nothing."""
    s, code = np.searchsorted(end, first, side="right"), np.zeros(BLOCK, np.uint8)
    for low in range(first, last, BLOCK):
        high = min(low + BLOCK, last)
        at = low
        while at < high:
            while end[s] <= at:
                s += 1
            stop, most = min(high, end[s]), scale[s]
            counted, step = np.uint32(start[s]), np.uint32(gamma[s])
            for i in range(at, stop):
                word = np.uint32(counted + step * np.uint32(i - begin[s]))
                taken = _drawn(word) * most < abs(value[i])
                down = value[i] < 0
                code[i - low] = np.uint8(taken) << np.uint8(down)
                rebuilt[i] = (-most if down else most) if taken else np.float32(0)
            at = stop
        code[high - low : (high - low + 3) // 4 * 4] = 0
        for b in range((high - low + 3) // 4):
            four = code[4 * b] | code[4 * b + 1] << 2 | code[4 * b + 2] << 4 | code[4 * b + 3] << 6
            byte[low // 4 + b] = np.uint8(four)


@numba.njit(cache=True, nogil=True)
def add_ternary(out: Any, scale: Any, byte: Any, begin: Any, end: Any, first: int, last: int) -> None:
    """Add scale, −scale or nothing, as each code says."""
    s, at = np.searchsorted(end, first, side="right"), first
    while at < last:
        while end[s] <= at:
            s += 1
        stop, most = min(last, end[s]), scale[s]
        head, tail = min(stop, (at + 3) // 4 * 4), stop // 4 * 4
        for i in range(at, head):
            code = np.int32(byte[i >> 2]) >> np.int32(2 * (i & 3))
            out[i] += np.float32((code & 1) - (code >> 1 & 1)) * most
        for b in range(head // 4, tail // 4):
            four = np.int32(byte[b])
            for j in range(4):
                out[4 * b + j] += np.float32((four >> (2 * j) & 1) - (four >> (2 * j + 1) & 1)) * most
        for i in range(max(head, tail), stop):
            code = np.int32(byte[i >> 2]) >> np.int32(2 * (i & 3))
            out[i] += np.float32((code & 1) - (code >> 1 & 1)) * most
        at = stop


@numba.njit(cache=True, nogil=True)
def draw_levels(
    x: Any, norm: Any, value: Any, sign: Any, start: Any, gamma: Any, code: Any, rebuilt: Any, begin: Any, end: Any,
    base: Any, bucket: int, first: int, last: int,
) -> None:  # fmt: skip
    """Round every element at random to a level of its bucket's norm: codes, and what they stand for."""
    s, at, most = np.searchsorted(end, first, side="right"), first, np.float32(len(value) - 1)
    while at < last:
        while end[s] <= at:
            s += 1
        mine = (at - begin[s]) // bucket
        stop = min(last, end[s], begin[s] + (mine + 1) * bucket)
        length = norm[base[s] + mine]
        counted, step = np.uint32(start[s]), np.uint32(gamma[s])
        if not length > 0:
            for i in range(at, stop):
                code[i] = sign if x[i] < 0 else np.uint8(0)
                rebuilt[i] = np.float32(0)
        else:
            for i in range(at, stop):
                place = min(most * (abs(x[i]) / length), most)
                low = np.floor(place)
                word = np.uint32(counted + step * np.uint32(i - begin[s]))
                level = np.uint8(low) + np.uint8(_drawn(word) < place - low)
                down = x[i] < 0
                code[i] = level | (sign if down else np.uint8(0))
                rebuilt[i] = (-value[level] if down else value[level]) * length
        at = stop


@numba.njit(cache=True, nogil=True)
def add_levels(
    out: Any, code: Any, norm: Any, value: Any, sign: Any, begin: Any, end: Any, base: Any, bucket: int, first: int,
    last: int,
) -> None:  # fmt: skip
    """Add what each code stands for."""
    s, at = np.searchsorted(end, first, side="right"), first
    while at < last:
        while end[s] <= at:
            s += 1
        mine = (at - begin[s]) // bucket
        stop = min(last, end[s], begin[s] + (mine + 1) * bucket)
        length = norm[base[s] + mine]
        for i in range(at, stop):
            size = value[code[i] & (sign - np.uint8(1))]
            out[i] += (-size if code[i] & sign else size) * length
        at = stop
