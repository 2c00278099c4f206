"""Huffman streams, rANS and relative indices in plain Python.

Huffman: bits fill bytes from the lowest up, and a word's first bit comes first. Each stream ends on a whole byte.

rANS (Duda, arXiv 1311.2540), frequencies f adding to 2ˢ, symbols below a symbol c:

    encode   while x ≥ f·2^(32−s): write x mod 2¹⁶, x ← x / 2¹⁶;   x ← (x / f)·2ˢ + c + x mod f
    decode   slot = x mod 2ˢ;   x ← f·(x / 2ˢ) + slot − c;   while x < 2¹⁶: x ← x·2¹⁶ + next word

Symbol i belongs to state i mod 4. Encoding goes backwards; the bytes begin with the four states.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Symbols = NDArray[np.uint8] | NDArray[np.uint16]
Bytes = NDArray[np.uint8]


def huffman_encode(symbol_N: Symbols, length_A: Bytes, word_A: NDArray[np.uint16]) -> Bytes:
    """One stream: the words of all symbols."""
    whole, place = 0, 0
    for symbol in symbol_N.tolist():
        whole |= int(word_A[symbol]) << place
        place += int(length_A[symbol])
    return np.frombuffer(whole.to_bytes((place + 7) // 8, "little"), np.uint8)


def huffman_decode(
    byte_B: Bytes, ends: NDArray[np.int64], *, symbol_T: NDArray[np.uint16], length_T: Bytes, out_N: Symbols
) -> bool:
    """Fill ``out_N`` from streams that end at ``ends``, each an equal share; whether all end where they should.

    Table entry t holds the symbol, and the length, of the word with which the bits t begin. Missing bits are zero.
    """
    share = -(-len(out_N) // len(ends))
    fine, begin = True, 0
    for number, end in enumerate(ends.tolist()):
        whole = int.from_bytes(byte_B[begin:end].tobytes(), "little")
        place = 0
        for i in range(number * share, min(len(out_N), (number + 1) * share)):
            slot = (whole >> place) & (len(symbol_T) - 1)
            out_N[i] = symbol_T[slot]
            place += int(length_T[slot])
        fine = fine and (place + 7) // 8 == end - begin
        begin = end
    return fine


def rans_encode(symbol_N: Symbols, freq_A: NDArray[np.uint32], *, below_A: NDArray[np.uint32], scale: int) -> Bytes:
    """Four states, then words."""
    states, words = [1 << 16] * 4, []
    for i in range(len(symbol_N) - 1, -1, -1):
        f, c = int(freq_A[symbol_N[i]]), int(below_A[symbol_N[i]])
        x = states[i % 4]
        if x >= f << (32 - scale):
            words.append(x & 0xFFFF)
            x >>= 16
        states[i % 4] = ((x // f) << scale) + c + x % f
    return np.concatenate([np.array(states, "<u4").view(np.uint8), np.array(words[::-1], "<u2").view(np.uint8)])


def rans_decode(byte_B: Bytes, symbol_T: NDArray[np.uint16], step_T: NDArray[np.uint32], out_N: Symbols) -> bool:
    """Fill ``out_N``; whether all words were used and all states are back where they began.

    Table entry t holds the symbol of slot t, and (f − 1)·2¹⁶ + t − c of it. Missing words are zero.
    """
    states = [int(x) for x in byte_B[:16].copy().view("<u4")]
    words = byte_B[16:].copy().view("<u2").tolist()
    scale, used = len(symbol_T).bit_length() - 1, 0
    for i in range(len(out_N)):
        x = states[i % 4]
        slot = x & (len(symbol_T) - 1)
        out_N[i] = symbol_T[slot]
        step = int(step_T[slot])
        x = ((step >> 16) + 1) * (x >> scale) + (step & 0xFFFF)
        if x < 1 << 16:
            x = (x << 16) | (words[used] if used < len(words) else 0)
            used += 1
        states[i % 4] = x & 0xFFFFFFFF
    return used == len(words) and states == [1 << 16] * 4


def scatter(gap_T: Symbols, code_T: Symbols, code_N: Symbols) -> bool:
    """Put codes where gaps lead, into zeros; False if one leads beyond."""
    position_T = np.cumsum(gap_T.astype(np.int64) + 1) - 1
    inside = position_T < len(code_N)
    code_N[position_T[inside]] = code_T[inside]
    return bool(inside.all())
