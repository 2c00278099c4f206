"""Canonical Huffman coding of a sequence of symbols, words limited in length.

    mean length L of a word:  H ≤ L < H + 1   (H the entropy of the frequencies in the sequence)

Huffman 1952; lengths limited by package-merge: Larmore, Hirschberg: A fast algorithm for optimal length-limited Huffman
codes. JACM 1990. A sequence of one kind of symbol takes no words. Bytes:

    how many kinds of symbols there are (`code.kinds`); for more than one then
    for each of the alphabet: bit used; then for each used one: zigzag(length − length before, from 4 on) in unary
    4 streams from 4096 symbols on, else 1: the bytes of all but the last as varints, the streams
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.bits import BitReader, BitWriter, Reader, varint
from tightwire.compress.code.kinds import read_kinds, write_kinds
from tightwire.compress.code.protocol import Codes
from tightwire.compress.shared_weights import code_type
from tightwire.kernels.entropy import entropy

SHORT, LONG = 12, 16  # most bits of a word, for alphabets of up to 1024 symbols and above
FOUR_FROM = 4096
_FIRST = 4


@dataclass(frozen=True)
class Huffman:
    """The symbol coder of Deep Compression."""

    name: str = "huffman"

    def bits(self, count_A: NDArray[np.int64]) -> float:
        """Words and table."""
        if int((count_A > 0).sum()) < 2:
            return 0.0
        length_A = lengths(count_A, most_bits(len(count_A)))
        return float((count_A * length_A).sum()) + 8 * len(_table(length_A))

    def write(self, symbol_N: Codes, alphabet: int) -> bytes:
        """Symbols below ``alphabet`` with their table."""
        count_A = np.bincount(symbol_N, minlength=alphabet)
        begin = write_kinds(count_A)
        if np.count_nonzero(count_A) < 2:
            return begin
        length_A = lengths(count_A, most_bits(alphabet))
        streams = [entropy().huffman_encode(part, length_A, words(length_A)).tobytes() for part in _shares(symbol_N)]
        sizes = b"".join(varint(len(stream)) for stream in streams[:-1])
        return begin + _table(length_A) + sizes + b"".join(streams)

    def read(self, payload: bytes, *, count: int, alphabet: int) -> Codes:
        """The symbols that `write` wrote; refuses what cannot be its bytes."""
        reader = Reader(payload)
        few = read_kinds(reader, count=count, alphabet=alphabet)
        if few is not None:
            return few
        length_A = _read_table(reader, alphabet)
        number = 4 if count >= FOUR_FROM else 1
        sizes = [reader.varint(reader.left) for _ in range(number - 1)]
        body = np.frombuffer(reader.rest(), np.uint8)
        ends = np.cumsum([*sizes, len(body) - sum(sizes)])
        if sum(sizes) > len(body):
            raise PayloadError(f"streams of {sum(sizes)} bytes are announced where {len(body)} are left")
        symbol_T, length_T = _slots(length_A)
        out_N: Codes = np.empty(count, code_type(alphabet - 1))
        if not entropy().huffman_decode(body, ends, symbol_T=symbol_T, length_T=length_T, out_N=out_N):
            raise PayloadError(f"Huffman streams do not end after {count} symbols")
        return out_N


def most_bits(alphabet: int) -> int:
    """The most bits of a word."""
    return SHORT if alphabet <= 1024 else LONG


def _shares(symbol_N: Codes) -> list[Codes]:
    number = 4 if len(symbol_N) >= FOUR_FROM else 1
    share = -(-len(symbol_N) // number)
    return [symbol_N[k * share : (k + 1) * share] for k in range(number)]


def lengths(count_A: NDArray[np.int64], most: int) -> NDArray[np.uint8]:
    """Bits of each symbol's word, 0 for symbols that do not occur; at least two do.

    >>> lengths(np.array([5, 0, 1, 1]), 12).tolist()
    [1, 0, 2, 2]
    """
    used = np.flatnonzero(count_A)
    length_A = np.zeros(len(count_A), np.uint8)
    free = _free_lengths(count_A[used].tolist())
    length_A[used] = free if max(free) <= most else _limited_lengths(count_A[used].tolist(), most)
    return length_A


def _free_lengths(counts: list[int]) -> list[int]:
    """Huffman's own: join the two rarest until one is left."""
    heap = [(count, i) for i, count in enumerate(counts)]
    parent = [0] * (2 * len(counts) - 1)
    heapify(heap)
    for joint in range(len(counts), 2 * len(counts) - 1):
        (first, a), (second, b) = heappop(heap), heappop(heap)
        parent[a] = parent[b] = joint
        heappush(heap, (first + second, joint))
    depth = [0] * len(parent)
    for node in range(len(parent) - 2, -1, -1):
        depth[node] = depth[parent[node]] + 1
    return depth[: len(counts)]


def _limited_lengths(counts: list[int], most: int) -> list[int]:
    """Package-merge: a symbol's length is how often it is among the 2n − 2 cheapest coins."""
    coins = sorted((count, (i,)) for i, count in enumerate(counts))
    row: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(most):
        pairs = [(row[k][0] + row[k + 1][0], row[k][1] + row[k + 1][1]) for k in range(0, len(row) - 1, 2)]
        row = sorted(coins + pairs, key=lambda coin: coin[0])
    found = [0] * len(counts)
    for _, symbols in row[: 2 * len(counts) - 2]:
        for symbol in symbols:
            found[symbol] += 1
    return found


def words(length_A: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Canonical words: ascending with length, then symbol; first bit lowest."""
    word_A = np.zeros(len(length_A), np.uint16)
    word, before = 0, 0
    for symbol in np.lexsort((np.arange(len(length_A)), length_A)).tolist():
        bits = int(length_A[symbol])
        if bits:
            word <<= bits - before
            before = bits
            word_A[symbol] = int(format(word, f"0{bits}b")[::-1], 2)
            word += 1
    return word_A


def _slots(length_A: NDArray[np.uint8]) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """For every run of bits: the symbol whose word they begin with, and its length."""
    most = int(length_A.max())
    order = np.lexsort((np.arange(len(length_A)), length_A))
    order = order[length_A[order] > 0]
    symbol_T = np.repeat(order, 1 << (most - length_A[order].astype(np.int64))).astype(np.uint16)
    turned = np.zeros(1, np.int64)
    for _ in range(most):
        turned = np.concatenate([2 * turned, 2 * turned + 1])
    return symbol_T[turned], length_A[symbol_T[turned]]


def _table(length_A: NDArray[np.uint8]) -> bytes:
    bits, before = BitWriter(), _FIRST
    for length in length_A.tolist():
        bits.fixed(int(length > 0), 1)
    for length in length_A[length_A > 0].tolist():
        step = length - before
        bits.unary(2 * step if step >= 0 else -2 * step - 1)
        before = length
    return bits.bytes()


def _read_table(reader: Reader, alphabet: int) -> NDArray[np.uint8]:
    most = most_bits(alphabet)
    bits = BitReader(reader, (alphabet * (2 * LONG + 2)) // 8 + 8)
    length_A = np.array([bits.fixed(1) for _ in range(alphabet)], np.int64)
    before = _FIRST
    for symbol in np.flatnonzero(length_A).tolist():
        number = bits.unary(2 * LONG)
        before += number // 2 if number % 2 == 0 else -(number + 1) // 2
        if not 1 <= before <= most:
            raise PayloadError(f"a Huffman word of {before} bits where 1 to {most} are allowed")
        length_A[symbol] = before
    bits.close()
    if int((1 << (most - length_A[length_A > 0])).sum()) != 1 << most:
        raise PayloadError("Huffman words do not fill the code: the table is damaged")
    return length_A.astype(np.uint8)
