"""Huffman streams, compiled: see `entropy_plain_words` for what they are.

A look at 64 bits wherever they begin replaces all bookkeeping of bits: at least 57 of them are new, so three words of
at most 16 bits (four of at most 12) follow without another look. Four streams run side by side, which hides the latency
of the table.
"""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic


@intrinsic
def _look(_typing: Any, byte_B: Any, at: Any) -> Any:
    """The 8 bytes from ``at`` on, lowest first, wherever they lie."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.gep(array.data, [args[1]])
        wide = builder.bitcast(pointer, context.get_value_type(types.uint64).as_pointer())
        return builder.load(wide, align=1)

    return types.uint64(byte_B, types.int64), generate


look: Any = _look  # Numba passes the typing context itself


@numba.njit(cache=True, nogil=True)
def _encode(symbol_N: Any, length_A: Any, word_A: Any, out: Any) -> int:
    buffer, bits, at = np.uint64(0), np.uint64(0), 0
    for symbol in symbol_N:
        buffer |= np.uint64(word_A[symbol]) << bits
        bits += np.uint64(length_A[symbol])
        while bits >= np.uint64(8):
            out[at] = np.uint8(buffer & np.uint64(255))
            buffer >>= np.uint64(8)
            bits -= np.uint64(8)
            at += 1
    if bits > np.uint64(0):
        out[at] = np.uint8(buffer)
        at += 1
    return at


def huffman_encode(symbol_N: Any, length_A: Any, word_A: Any) -> Any:
    """One stream: the words of all symbols."""
    out = np.empty(2 * len(symbol_N) + 8, np.uint8)
    return out[: _encode(symbol_N, length_A, word_A, out)].copy()


@numba.njit(cache=True, nogil=True)
def _decode_one(byte_B: Any, places: Any, table_T: Any, mask: Any, out_N: Any) -> int:
    """One stream from bit places[0] on, never looking beyond byte places[1]; the place where it ended."""
    place, last = places[0], places[1]
    for i in range(len(out_N)):
        at = min(place >> 3, last)
        entry = table_T[(look(byte_B, at) >> np.uint64(place & 7)) & mask]
        out_N[i] = entry >> 8
        place += np.int64(entry & 255)
    return int(place)


@numba.njit(cache=True, nogil=True)
def _decode_four(byte_B: Any, places: Any, table_T: Any, mask: Any, out_N: Any) -> int:
    """Four streams side by side from the bits places[:4] on, as long as all have 8 bytes left; words decoded of each.

    Words are at most 12 bits. A stream may look beyond its own end here, into the next; the caller checks its end.
    """
    share, last = (len(out_N) + 3) // 4, places[4]
    rounds = max(0, len(out_N) - 3 * share) // 4  # the last stream is the shortest
    a, b, c, d = places[0], places[1], places[2], places[3]
    n = 0
    for _ in range(rounds):
        if max(a, b, c, d) >> 3 > last:
            break
        bits_a = look(byte_B, a >> 3) >> np.uint64(a & 7)
        bits_b = look(byte_B, b >> 3) >> np.uint64(b & 7)
        bits_c = look(byte_B, c >> 3) >> np.uint64(c & 7)
        bits_d = look(byte_B, d >> 3) >> np.uint64(d & 7)
        for j in range(4):
            entry_a, entry_b = table_T[bits_a & mask], table_T[bits_b & mask]
            entry_c, entry_d = table_T[bits_c & mask], table_T[bits_d & mask]
            out_N[n + j] = entry_a >> 8
            out_N[share + n + j] = entry_b >> 8
            out_N[2 * share + n + j] = entry_c >> 8
            out_N[3 * share + n + j] = entry_d >> 8
            bits_a >>= np.uint64(entry_a & 255)
            bits_b >>= np.uint64(entry_b & 255)
            bits_c >>= np.uint64(entry_c & 255)
            bits_d >>= np.uint64(entry_d & 255)
            a += np.int64(entry_a & 255)
            b += np.int64(entry_b & 255)
            c += np.int64(entry_c & 255)
            d += np.int64(entry_d & 255)
        n += 4
    places[0], places[1], places[2], places[3] = a, b, c, d
    return n


def huffman_decode(byte_B: Any, ends: Any, *, symbol_T: Any, length_T: Any, out_N: Any) -> bool:
    """Fill ``out_N`` from streams that end at ``ends``; whether all end where they should."""
    table_T = (symbol_T.astype(np.uint32) << np.uint32(8)) | length_T
    mask = np.uint64(len(table_T) - 1)
    padded_B = np.concatenate([byte_B, np.zeros(8, np.uint8)])
    begins = np.concatenate([[0], ends[:-1]])
    places = np.concatenate([8 * begins, [len(byte_B)]]).astype(np.int64)
    share = -(-len(out_N) // len(ends))
    done = 0
    if len(ends) == 4 and len(table_T) <= 1 << 12:
        done = _decode_four(padded_B, places, table_T, mask, out_N)
    fine = True
    for number, end in enumerate(ends.tolist()):
        rest = out_N[min(len(out_N), number * share + done) : (number + 1) * share]
        place = _decode_one(padded_B, np.array([places[number], len(byte_B)]), table_T, mask, rest)
        fine = fine and (place + 7) // 8 == end
    return fine
