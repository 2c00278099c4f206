"""The mixing coder, compiled: see `entropy_plain_mixing` for what it is. About 20 million positions a second.

One loop encodes and decodes, so that both sides cannot drift apart: ``interval`` says which, and `_bit` alone differs.
"""
# mypy: disable-error-code="untyped-decorator,operator"

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tightwire.kernels.entropy_tables import (
    COST,
    EACH,
    FAR,
    FREE,
    RATE,
    SEEN,
    SIG_INPUTS,
    SIG_SETS,
    SIG_START,
    SQUASH,
    STRETCH,
    VALUE_INPUTS,
    VALUE_START,
)

LOW, HIGH, VALUE, AT, READS, FINE, ZERO_COST = range(7)  # fields of ``interval``
MODELLED = 8
_TOP = 0xFFFFFFFF


@numba.njit(cache=True, nogil=True)
def _bit(interval: Any, byte_B: Any, p: Any, bit: Any) -> Any:
    low, high = interval[LOW], interval[HIGH]
    wide = high - low
    mid = low + (wide >> 16) * p + (((wide & 0xFFFF) * p) >> 16)
    if interval[READS]:
        bit = np.int64(interval[VALUE] <= mid)
    if bit:
        high = mid
    else:
        low = mid + 1
    while (low ^ high) < 1 << 24:
        at = interval[AT]
        if interval[READS]:
            interval[VALUE] = ((interval[VALUE] << 8) & _TOP) | (np.int64(byte_B[at]) if at < len(byte_B) else 0)
        elif at < len(byte_B):
            byte_B[at] = high >> 24
        interval[AT] = at + 1
        low = (low << 8) & _TOP
        high = ((high << 8) & _TOP) | 255
    interval[LOW], interval[HIGH] = low, high
    return bit


@numba.njit(cache=True, nogil=True)
def _mixed(x: Any, weight: Any) -> Any:
    dot = np.int64(0)
    for j in range(len(x)):
        dot += x[j] * weight[j]
    return SQUASH[min(FAR, max(-FAR, dot >> 16)) + FAR]


@numba.njit(cache=True, nogil=True)
def _learn(x: Any, weight: Any, p: Any, bit: Any, rate: Any) -> None:
    wrong = ((65535 if bit else 0) - p) * rate
    for j in range(len(x)):
        weight[j] += (x[j] * wrong + (1 << 17)) >> 18


@numba.njit(cache=True, nogil=True)
def _count(chance: Any, seen: Any, context: Any, bit: Any) -> None:
    for j in range(len(context)):
        c = context[j]
        chance[j, c] += (((65535 if bit else 0) - np.int64(chance[j, c])) * RATE[seen[j, c]]) >> 16
        if seen[j, c] < SEEN:
            seen[j, c] += 1


@numba.njit(cache=True, nogil=True)
def _code(code_N: Any, i: Any, inside: Any) -> Any:
    return np.int64(code_N[i]) if inside else np.int64(0)


@numba.njit(cache=True, nogil=True)
def _look_around(code_N: Any, i: Any, c: Any, width: Any, s: Any, near: Any) -> Any:
    """Codes known already, into ``near``: beside, above, above right and left, two beside, then the row before."""
    row = i >= width
    near[0], near[1] = _code(code_N, i - 1, c >= 1), _code(code_N, i - s, c >= s)
    near[2], near[3] = _code(code_N, i - s + 1, c >= s > 1), _code(code_N, i - s - 1, c >= s + 1)
    near[4], near[5] = _code(code_N, i - 2, c >= 2), _code(code_N, i - width, row)
    near[6] = _code(code_N, i - width + 1, row and c + 1 < width)
    near[7] = _code(code_N, i - width - 1, row and c > 0)


@numba.njit(cache=True, nogil=True)
def _weighed(near: Any, bits: Any) -> Any:
    """Over the first five: how many there are, a bit for each, their magnitude, their mean in 32 levels (32: none)."""
    count, pattern, size, parts, total = 0, 0, np.int64(0), 0, np.int64(0)
    for j in range(5):
        if near[j]:
            weight = 2 if j < 2 else 1
            count += 1
            pattern |= 1 << j
            size += weight * abs(2 * near[j] - (1 << bits) - 1)
            parts += weight
            total += weight * (near[j] - 1)
    return count, pattern, size, ((total << 5) // (parts << bits) if parts else np.int64(32))


@numba.njit(cache=True, nogil=True)
def _level(code: Any, bits: Any) -> Any:
    return ((code - 1) << 3) >> bits if code else np.int64(8)


@numba.njit(cache=True, nogil=True)
def _stretched(p: Any) -> Any:
    return STRETCH[min(4095, max(0, p))]


@numba.njit(cache=True, nogil=True)
def _value(interval: Any, byte_B: Any, index: Any, bits: Any, rate: Any, others: Any, tables: Any) -> Any:
    """Code an index from its highest bit down."""
    chance, seen, weights, x, context = tables
    node, made = np.int64(1), np.int64(0)
    for j in range(bits):
        bit = (index >> (bits - 1 - j)) & 1
        if j < MODELLED:
            context[0] = node
            first = chance[0, node]
            for k in range(VALUE_INPUTS):
                if k:
                    context[k] = node * 64 + others[k - 1]
                    if seen[k, context[k]] == 0:
                        chance[k, context[k]] = first
                x[k] = STRETCH[chance[k, context[k]] >> 4]
            p = _mixed(x, weights[node])
            bit = _bit(interval, byte_B, p, bit)
            _learn(x, weights[node], p, bit, rate)
            _count(chance, seen, context, bit)
            node = 2 * node + bit
        else:
            bit = _bit(interval, byte_B, np.int64(32768), bit)
        made = 2 * made + bit
    return made


@numba.njit(cache=True, nogil=True)
def _zero(interval: Any, byte_B: Any, bit: Any, rate: Any, start: Any, chosen: Any, tables: Any) -> Any:
    """Code whether there is a code; contexts and densities are in their places."""
    chance, seen, weights, x, context = tables
    for j in range(len(context)):
        if seen[j, context[j]] == 0:
            chance[j, context[j]] = start
        x[j] = STRETCH[chance[j, context[j]] >> 4]
    p = _mixed(x, weights[chosen])
    bit = _bit(interval, byte_B, p, bit)
    _learn(x, weights[chosen], p, bit, rate)
    _count(chance, seen, context, bit)
    interval[ZERO_COST] += COST[p >> 4] if bit else COST[(65536 - p) >> 4]
    return bit


@numba.njit(cache=True, nogil=True)
def _run(code_N: Any, byte_B: Any, interval: Any, shape: Any, zero: Any, value: Any, column: Any) -> None:
    """Walk the matrix, coding or filling in codes."""
    width, s, rate, centroids, bits = shape
    x, context = zero[3], zero[4]
    near, others = np.zeros(8, np.int64), np.zeros(VALUE_INPUTS - 1, np.int64)
    row, c, in_row, nonzero = 0, 0, 0, 0
    most = FREE + EACH * len(byte_B)
    for i in range(len(code_N)):
        if interval[READS] and i + nonzero * bits > most:
            interval[FINE] = 0
            return
        _look_around(code_N, i, c, width, s, near)
        count, pattern, size, mean = _weighed(near, bits)
        around = np.int64(column[s + c - 1]) + column[s + c + 1] + column[c] + column[2 * s + c]
        everywhere = min(np.int64(4095), ((4 * nonzero + 2) << 12) // (4 * i + 50))
        columns = _stretched((((4 * np.int64(column[s + c]) + around) << 12) + 8 * everywhere) // (8 * row + 8))
        along = _stretched(((in_row << 12) + 16 * everywhere) // (c + 16))
        q_columns, q_row = max(np.int64(0), (columns + 1536) // 96), max(np.int64(0), (along + 1536) // 128)
        context[0] = pattern + 32 * (near[5] > 0) + 64 * (near[6] > 0) + 128 * (near[7] > 0)
        context[1] = min(np.int64(31), (size << 3) >> bits) * 64 + q_columns
        context[2] = q_columns * 32 + pattern
        context[3] = q_columns * 64 + q_row
        x[4], x[5] = along, columns
        if _zero(interval, byte_B, np.int64(code_N[i] > 0), rate, everywhere << 4, count, zero):
            others[0], others[1], others[4] = _level(near[0], bits), _level(near[1], bits), _level(near[2], bits)
            others[2], others[3] = mean, q_columns
            index = _value(interval, byte_B, max(np.int64(code_N[i]) - 1, 0), bits, rate, others, value)
            if index >= centroids:
                interval[FINE], index = 0, centroids - 1
            code_N[i] = index + 1
            column[s + c] += 1
            in_row += 1
            nonzero += 1
        else:
            code_N[i] = 0
        c += 1
        if c == width:
            c, in_row, row = 0, 0, row + 1


def _tables(counts: tuple[int, ...], sets: int, start: int, contexts: int) -> Any:
    """Frequencies of contexts, how often each was seen, weights, and room for inputs and contexts."""
    inputs = counts[0]
    chance = np.full((contexts, counts[1]), 32768, np.int32)
    seen = np.zeros((contexts, counts[1]), np.uint8)
    return (
        chance,
        seen,
        np.full((sets, inputs), start, np.int64),
        np.zeros(inputs, np.int64),
        np.zeros(contexts, np.int64),
    )


def _walk(code_N: Any, byte_B: Any, interval: Any, *, width: int, stride: int, rate: int, centroids: int) -> None:
    bits = max(0, centroids - 1).bit_length()
    zero = _tables((SIG_INPUTS, 4096), SIG_SETS, SIG_START, 4)
    nodes = 1 << min(bits, MODELLED)
    value = _tables((VALUE_INPUTS, 64 * nodes), nodes, VALUE_START, 6)
    shape = (width, stride, rate, centroids, bits)
    _run(code_N, byte_B, interval, shape, zero, value, np.zeros(width + 2 * stride, np.int32))


def mixing_encode(code_N: Any, *, width: int, stride: int, rate: int, centroids: int) -> bytes:
    """The bytes of a matrix of codes, ``width`` a row."""
    bits = max(0, centroids - 1).bit_length()
    byte_B = np.empty((len(code_N) * 12 + int(np.count_nonzero(code_N)) * bits * 12) // 8 + 64, np.uint8)
    interval = np.array([0, _TOP, 0, 0, 0, 1, 0], np.int64)
    _walk(code_N.copy(), byte_B, interval, width=width, stride=stride, rate=rate, centroids=centroids)
    assert interval[AT] <= len(byte_B), "no bit takes more than 12"
    body, low, high = byte_B[: interval[AT]].tobytes(), int(interval[LOW]), int(interval[HIGH])
    count = next(k for k in range(5) if (high >> (32 - 8 * k)) << (32 - 8 * k) >= low)
    return (body + (high >> (32 - 8 * count)).to_bytes(count, "big")).rstrip(b"\0")


def mixing_decode(
    byte_B: bytes, out_N: Any, *, width: int, stride: int, rate: int, centroids: int
) -> tuple[bool, float]:
    """Fill ``out_N``. Whether every code has a centroid and no bytes are left; bits that told where zeros are."""
    array_B = np.frombuffer(byte_B, np.uint8).copy()
    value = int.from_bytes(byte_B[:4].ljust(4, b"\0"), "big")
    interval = np.array([0, _TOP, value, 4, 1, 1, 0], np.int64)
    _walk(out_N, array_B, interval, width=width, stride=stride, rate=rate, centroids=centroids)
    return bool(interval[FINE] and len(byte_B) <= interval[AT]), float(interval[ZERO_COST] / 65536)
