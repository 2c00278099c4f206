"""Four-way rANS and relative indices, compiled: see `entropy_plain_words`. Four states hide each other's latency."""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_BEGIN = np.uint32(1 << 16)


@numba.njit(cache=True, nogil=True)
def _encode(symbol_N: Any, freq_A: Any, below_A: Any, scale: Any, states: Any, words: Any) -> int:
    """Words fill their array from the back; where they begin."""
    at = len(words)
    for i in range(len(symbol_N) - 1, -1, -1):
        symbol = symbol_N[i]
        f, x = np.uint64(freq_A[symbol]), states[i & 3]
        if x >= f << np.uint64(32 - scale):
            at -= 1
            words[at] = x & np.uint64(0xFFFF)
            x >>= np.uint64(16)
        quotient = x // f
        states[i & 3] = (quotient << np.uint64(scale)) + np.uint64(below_A[symbol]) + (x - quotient * f)
    return at


def rans_encode(symbol_N: Any, freq_A: Any, *, below_A: Any, scale: int) -> Any:
    """Four states, then words."""
    states, words = np.full(4, 1 << 16, np.uint64), np.empty(len(symbol_N), np.uint16)
    at = _encode(symbol_N, freq_A, below_A, scale, states, words)
    return np.concatenate([states.astype("<u4").view(np.uint8), words[at:].astype("<u2").view(np.uint8)])


@numba.njit(cache=True, nogil=True, inline="always")
def _step(x: Any, symbol_T: Any, step_T: Any, scale: Any) -> Any:
    slot = x & np.uint32(len(symbol_T) - 1)
    step = step_T[slot]
    return symbol_T[slot], np.uint32(
        ((step >> np.uint32(16)) + np.uint32(1)) * (x >> scale) + (step & np.uint32(0xFFFF))
    )


@numba.njit(cache=True, nogil=True, inline="always")
def _refill(x: Any, words: Any, used: Any) -> Any:
    low = x < _BEGIN
    filled = np.uint32((x << np.uint32(16)) | np.uint32(words[used]))
    return (filled if low else x), used + np.int64(low)


@numba.njit(cache=True, nogil=True)
def _decode(states: Any, words: Any, symbol_T: Any, step_T: Any, scale: Any, out_N: Any) -> int:
    """Words used. The array of words ends with four of zero, which are all that lies beyond the last."""
    a, b, c, d = states[0], states[1], states[2], states[3]
    used, i, last, over = 0, 0, len(words) - 4, 0
    while i + 4 <= len(out_N):
        out_N[i], a = _step(a, symbol_T, step_T, scale)
        out_N[i + 1], b = _step(b, symbol_T, step_T, scale)
        out_N[i + 2], c = _step(c, symbol_T, step_T, scale)
        out_N[i + 3], d = _step(d, symbol_T, step_T, scale)
        a, used = _refill(a, words, used)
        b, used = _refill(b, words, used)
        c, used = _refill(c, words, used)
        d, used = _refill(d, words, used)
        if used > last:
            over += used - last
            used = last
        i += 4
    states[0], states[1], states[2], states[3] = a, b, c, d
    for j in range(len(out_N) - i):
        out_N[i + j], x = _step(states[j], symbol_T, step_T, scale)
        states[j], used = _refill(x, words, used)
        if used > last:
            over += used - last
            used = last
    return used + over


def rans_decode(byte_B: Any, symbol_T: Any, step_T: Any, out_N: Any) -> bool:
    """Fill ``out_N``; whether all words were used and all states are back where they began."""
    states = byte_B[:16].copy().view("<u4").astype(np.uint32)
    words = np.concatenate([byte_B[16:].copy().view("<u2"), np.zeros(4, np.uint16)]).astype(np.uint16)
    used = _decode(states, words, symbol_T, step_T, np.uint32(len(symbol_T).bit_length() - 1), out_N)
    return used == len(words) - 4 and bool((states == _BEGIN).all())


@numba.njit(cache=True, nogil=True)
def scatter(gap_T: Any, code_T: Any, code_N: Any) -> bool:
    """Put codes where gaps lead, into zeros; False if one leads beyond."""
    position = np.int64(-1)
    for t in range(len(gap_T)):
        position += np.int64(gap_T[t]) + 1
        if position >= len(code_N):
            return False
        code_N[position] = code_T[t]
    return True
