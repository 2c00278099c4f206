"""Positions and values of a sparse payload as bytes and back, compiled by Numba: what `codecs` defines, bit for bit.

Walking gaps is sequential, which tensors are bad at and loops are good at. Every reader checks its bytes before it
follows them, and says −1 where they cannot be right.
"""
# mypy: disable-error-code="untyped-decorator,assignment,return-value"

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_SPAN = 1 << 16
_MOST_K = 31


@numba.njit(cache=True, nogil=True)
def write_gaps(index: Any, value: Any, gaps: Any, values: Any) -> int:
    """Ascending positions as 16-bit gaps, fillers between those too far apart; returns how many gaps there are."""
    n, before = 0, np.int64(-1)
    for j in range(len(index)):
        step = index[j] - before - 1
        while step >= _SPAN:
            gaps[n], values[n] = _SPAN - 1, 0
            n += 1
            step -= _SPAN
        gaps[n], values[n] = step, value[j]
        n += 1
        before = index[j]
    return n


@numba.njit(cache=True, nogil=True)
def read_gaps(gaps: Any, numel: int, index: Any) -> int:
    """Positions that 16-bit gaps lead to; −1 if beyond ``numel``."""
    position = np.int64(-1)
    for j in range(len(gaps)):
        position += np.int64(gaps[j]) + 1
        index[j] = position
    return -1 if position >= numel else len(gaps)


@numba.njit(cache=True, nogil=True)
def rice_nbytes(index: Any, k: int) -> int:
    """Bytes of positions in Rice's code, without the one that says k."""
    total, before = np.int64(len(index)), np.int64(-1)
    for j in range(len(index)):
        total += (index[j] - before - 1) >> k
        before = index[j]
    return (len(index) * k + 7) // 8 + (total + 7) // 8


@numba.njit(cache=True, nogil=True)
def write_rice(index: Any, k: int, out: Any) -> None:
    """K, remainders of k bits, then ones behind as many zeros as the quotient says; ``out`` begins as zeros."""
    out[0] = k
    low, held, bits, at = np.int64(1), np.uint64(0), 0, 8 * np.int64((len(index) * k + 7) // 8 + 1)
    before, mask = np.int64(-1), (np.int64(1) << k) - 1
    for j in range(len(index)):
        gap = index[j] - before - 1
        before = index[j]
        held |= np.uint64(gap & mask) << np.uint64(bits)
        bits += k
        while bits >= 8:
            out[low] = np.uint8(held & np.uint64(255))
            held >>= np.uint64(8)
            bits -= 8
            low += 1
        at += gap >> k
        out[at >> 3] |= np.uint8(1 << (at & 7))
        at += 1
    if bits:
        out[low] = np.uint8(held & np.uint64(255))


@numba.njit(cache=True, nogil=True)
def read_rice(byte: Any, numel: int, index: Any) -> int:
    """Positions from Rice's code, ``len(index)`` of them; −1 if these bytes hold others."""
    count = len(index)
    if len(byte) == 0:
        return -1
    k = np.int64(byte[0])
    tail = 1 + (count * k + 7) // 8
    if k > _MOST_K or len(byte) < tail:
        return -1
    low, held, bits, mask = 1, np.uint64(0), 0, np.uint64((1 << k) - 1)
    position, quotient, n = np.int64(-1), np.int64(0), 0
    for b in range(tail, len(byte)):
        rest = byte[b]
        for _ in range(8):
            if rest & 1:
                if n == count:
                    return -1
                while bits < k:
                    held |= np.uint64(byte[low]) << np.uint64(bits)
                    low += 1
                    bits += 8
                position += (quotient << k) + np.int64(held & mask) + 1
                held >>= np.uint64(k)
                bits -= k
                if position >= numel:
                    return -1
                index[n] = position
                n += 1
                quotient = 0
            else:
                quotient += 1
            rest >>= 1
    return n if n == count else -1


@numba.njit(cache=True, nogil=True)
def write_levels(value: Any, group: Any, between: Any, table: Any, code: Any, rounded: Any) -> None:
    """The nearest of 127 levels of each value's group, and the value it stands for; the edges decide."""
    for j in range(len(value)):
        size = abs(value[j])
        edges = between[group[j]]
        low, high = 0, 126
        while low < high:  # the last level whose lower edge is below
            middle = (low + high + 1) // 2
            if size > edges[middle]:
                low = middle
            else:
                high = middle - 1
        level = low + 1 if size > 0 else 0
        sign = value[j] < 0
        code[j] = level | (128 if sign else 0)
        rounded[j] = -table[group[j], level] if sign else table[group[j], level]


@numba.njit(cache=True, nogil=True)
def read_levels(code: Any, group: Any, table: Any, value: Any) -> None:
    """What codes stand for."""
    for j in range(len(code)):
        size = table[group[j], code[j] & 127]
        value[j] = -size if code[j] > 127 else size


@numba.njit(cache=True, nogil=True)
def groups(index: Any, ends: Any, group: Any) -> None:
    """The tensor that each of some ascending positions lies in."""
    g = 0
    for j in range(len(index)):
        while index[j] >= ends[g]:
            g += 1
        group[j] = g


@numba.njit(cache=True, nogil=True)
def extremes(value: Any, group: Any, scale: Any) -> None:
    """The least magnitude that is not 0 and the largest, of each group; 0 and 0 where there is none."""
    for g in range(len(scale)):
        scale[g, 0], scale[g, 1] = np.inf, 0
    for j in range(len(value)):
        size = abs(value[j])
        g = group[j]
        if size > 0:
            scale[g, 0] = min(scale[g, 0], size)
            scale[g, 1] = max(scale[g, 1], size)
    for g in range(len(scale)):
        scale[g, 0] = min(scale[g, 0], scale[g, 1])


@numba.njit(cache=True, nogil=True)
def move(index: Any, begins: Any, shifts: Any) -> None:
    """Ascending positions in one layout of tensors as positions in another; tensors end where the next begins."""
    tensor = 0
    for j in range(len(index)):
        while index[j] >= begins[tensor + 1]:
            tensor += 1
        index[j] += shifts[tensor]


@numba.njit(cache=True, nogil=True)
def add(out: Any, index: Any, value: Any) -> None:
    """Add values at positions."""
    for j in range(len(index)):
        out[index[j]] += value[j]


@numba.njit(cache=True, nogil=True)
def merge(a: Any, a_value: Any, b: Any, b_value: Any) -> Any:
    """Two sparse sums as one: ascending positions of either, each once, and a + b there."""
    index, value = np.empty(len(a) + len(b), np.int64), np.empty(len(a) + len(b), np.float32)
    i, j, n = 0, 0, 0
    while i < len(a) or j < len(b):
        left = j == len(b) or (i < len(a) and a[i] <= b[j])
        right = i == len(a) or (j < len(b) and b[j] <= a[i])
        index[n] = a[i] if left else b[j]
        value[n] = (a_value[i] + b_value[j] if right else a_value[i]) if left else b_value[j]
        i += left
        j += right
        n += 1
    return index[:n], value[:n]
