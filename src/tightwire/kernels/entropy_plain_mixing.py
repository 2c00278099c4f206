"""The mixing coder in plain Python: binary arithmetic coding, each bit predicted by several contexts at once.

A matrix of codes is walked row by row. At each position one bit says whether the code is zero; a code that is not has
its index coded from the highest bit down. Six inputs xⱼ predict each bit, in the logistic domain:

    p = squash(Σ wⱼ·xⱼ);     wⱼ ← wⱼ + rate·xⱼ·(bit − p)

Four inputs (for zeros) or six (for values) are learnt frequencies of contexts, stretched; two for zeros are counted
densities. Contexts look at what is known already: the codes beside and above (``stride`` positions before: one line of
an image, one kernel), how dense the columns around are in the rows so far, how dense this row is so far.

Mixing after Mahoney's PAQ (Florida Tech CS-2005-16); binary arithmetic coding of weights after Wiedemann et al.:
DeepCABAC. IEEE JSTSP 2020, arXiv 1907.11900. All arithmetic is in whole numbers: // rounds down, as does >>.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tightwire.kernels.entropy_tables import (
    COST,
    EACH,
    FAR,
    FREE,
    RATE,
    SEEN,
    SIG_INPUTS,
    SIG_START,
    SQUASH,
    STRETCH,
    VALUE_INPUTS,
    VALUE_START,
)

_TOP = 0xFFFFFFFF
MODELLED = 8  # bits of an index that are predicted; the rest, if any, are taken as even


@dataclass
class Arithmetic:
    """The interval [low, high] of 32 bits, and bytes that go out (encoding) or come in (decoding)."""

    byte_B: bytearray  # noqa: N815
    reads: bool
    low: int = 0
    high: int = _TOP
    value: int = 0
    at: int = 0

    def __post_init__(self) -> None:
        if self.reads:
            for _ in range(4):
                self.value = (self.value << 8) | self._next()

    def _next(self) -> int:
        self.at += 1
        return self.byte_B[self.at - 1] if self.at <= len(self.byte_B) else 0

    def bit(self, p: int, bit: int) -> int:
        """Code a bit that is one with probability p/65536."""
        wide = self.high - self.low
        mid = self.low + (wide >> 16) * p + (((wide & 0xFFFF) * p) >> 16)
        if self.reads:
            bit = int(self.value <= mid)
        if bit:
            self.high = mid
        else:
            self.low = mid + 1
        while (self.low ^ self.high) < 1 << 24:
            if self.reads:
                self.value = ((self.value << 8) & _TOP) | self._next()
            else:
                self.byte_B.append(self.high >> 24)
            self.low = (self.low << 8) & _TOP
            self.high = ((self.high << 8) & _TOP) | 255
        return bit

    def finish(self) -> bytes:
        """The bytes, as few as determine the interval: what is missing reads as zero."""
        for count in range(5):
            keep = (self.high >> (32 - 8 * count)) << (32 - 8 * count)
            if keep >= self.low:
                return bytes(self.byte_B + (keep >> (32 - 8 * count)).to_bytes(count, "big")).rstrip(b"\0")
        raise AssertionError("four bytes determine every interval")


@dataclass
class Mixer:
    """Contexts, their frequencies, and the weights of their mixture."""

    inputs: int
    start: int
    rate: int
    chance: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    weight: dict[int, list[int]] = field(default_factory=dict)
    spent: int = 0  # bits in 1/65536

    def known(self, which: int, context: int, otherwise: int) -> int:
        """How often the context saw a one, in 65536; an estimate of others as long as it saw nothing."""
        return self.chance.get((which, context), (otherwise, 0))[0]

    def code(self, coder: Arithmetic, bit: int, contexts: list[int], others: list[int], how: tuple[int, int]) -> int:
        """Predict from contexts and other stretched inputs, code, learn. ``how``: set of weights, first estimate."""
        chosen, first = how
        weight = self.weight.setdefault(chosen, [self.start] * self.inputs)
        seen = [self.chance.get((j, c), (first, 0)) for j, c in enumerate(contexts)]
        x = [int(STRETCH[p >> 4]) for p, _ in seen] + others
        at = sum(w * v for w, v in zip(weight, x, strict=True)) >> 16
        p = int(SQUASH[min(FAR, max(-FAR, at)) + FAR])
        bit = coder.bit(p, bit)
        self.spent += int(COST[(p if bit else 65536 - p) >> 4])
        wrong = (65535 if bit else 0) - p
        for j, v in enumerate(x):
            weight[j] += (v * wrong * self.rate + (1 << 17)) >> 18
        for j, (c, (p, n)) in enumerate(zip(contexts, seen, strict=True)):
            self.chance[j, c] = (p + ((((65535 if bit else 0) - p) * int(RATE[n])) >> 16), min(SEEN, n + 1))
        return bit


def _level(code: int, bits: int) -> int:
    """One of 8 levels of a code, 8 for none."""
    return ((code - 1) << 3) >> bits if code else 8


def _stretched(p: int) -> int:
    return int(STRETCH[min(4095, max(0, p))])


def _around(code_N: NDArray[np.uint16], i: int, width: int, s: int) -> list[int]:
    """Codes known already: beside, above, above right and left, two beside; above, right and left in the row before."""
    row, c = divmod(i, width)
    places = [
        (1, c >= 1), (s, c >= s), (s - 1, c >= s > 1), (s + 1, c >= s + 1), (2, c >= 2),
        (width, row > 0), (width - 1, row > 0 and c + 1 < width), (width + 1, row > 0 and c > 0),
    ]  # fmt: skip
    return [int(code_N[i - back]) if inside else 0 for back, inside in places]


def _index(values: Mixer, coder: Arithmetic, index: int, bits: int, others: list[int]) -> int:
    """Code an index from its highest bit down."""
    made, node = 0, 1
    for j in range(bits):
        bit = (index >> (bits - 1 - j)) & 1
        if j < MODELLED:
            first = values.known(0, node, 32768)
            bit = values.code(coder, bit, [node, *(node * 64 + k for k in others)], [], (node, first))
            node = 2 * node + bit
        else:
            bit = coder.bit(32768, bit)
        made = 2 * made + bit
    return made


def _run(
    code_N: NDArray[np.uint16], coder: Arithmetic, *, width: int, stride: int, rate: int, centroids: int
) -> tuple[bool, float]:
    """Walk the matrix, coding or filling in codes; whether every code has a centroid, and the bits for zeros."""
    bits, s, fine, nonzero, in_row = max(0, centroids - 1).bit_length(), stride, True, 0, 0
    zeros, values = Mixer(SIG_INPUTS, SIG_START, rate), Mixer(VALUE_INPUTS, VALUE_START, rate)
    seen = [0] * (width + 2 * s)  # codes in columns so far, from column −s on
    for i in range(len(code_N)):
        row, c = divmod(i, width)
        if coder.reads and i + nonzero * bits > FREE + EACH * len(coder.byte_B):
            return False, zeros.spent / 65536
        in_row = 0 if c == 0 else in_row
        here = _around(code_N, i, width, s)
        columns_seen = 4 * seen[s + c] + seen[s + c - 1] + seen[s + c + 1] + seen[c] + seen[2 * s + c]
        everywhere = min(4095, ((4 * nonzero + 2) << 12) // (4 * i + 50))
        columns = _stretched(((columns_seen << 12) + 8 * everywhere) // (8 * row + 8))
        along = _stretched(((in_row << 12) + 16 * everywhere) // (c + 16))
        q_columns, q_row = max(0, (columns + 1536) // 96), max(0, (along + 1536) // 128)
        near = sum(bool(k) << j for j, k in enumerate(here))
        weighed = [(m, k) for m, k in zip((2, 2, 1, 1, 1), here, strict=False) if k]
        size = min(31, (sum(m * abs(2 * k - (1 << bits) - 1) for m, k in weighed) << 3) >> bits)
        contexts = [near, size * 64 + q_columns, q_columns * 32 + (near & 31), q_columns * 64 + q_row]
        how = ((near & 31).bit_count(), everywhere << 4)
        if not zeros.code(coder, int(bool(code_N[i])), contexts, [along, columns], how):
            code_N[i] = 0
            continue
        mean = (sum(m * (k - 1) for m, k in weighed) << 5) // (sum(m for m, _ in weighed) << bits) if weighed else 32
        others = [_level(here[0], bits), _level(here[1], bits), mean, q_columns, _level(here[2], bits)]
        index = _index(values, coder, max(0, int(code_N[i]) - 1), bits, others)
        fine = fine and index < centroids
        code_N[i] = min(index, centroids - 1) + 1
        seen[s + c], in_row, nonzero = seen[s + c] + 1, in_row + 1, nonzero + 1
    return fine, zeros.spent / 65536


def mixing_encode(code_N: NDArray[np.uint16], *, width: int, stride: int, rate: int, centroids: int) -> bytes:
    """The bytes of a matrix of codes, ``width`` a row."""
    coder = Arithmetic(bytearray(), reads=False)
    _run(code_N.copy(), coder, width=width, stride=stride, rate=rate, centroids=centroids)
    return coder.finish()


def mixing_decode(
    byte_B: bytes, out_N: NDArray[np.uint16], *, width: int, stride: int, rate: int, centroids: int
) -> tuple[bool, float]:
    """Fill ``out_N``. Whether every code has a centroid and no bytes are left; bits that told where zeros are."""
    coder = Arithmetic(bytearray(byte_B), reads=True)
    fine, bits = _run(out_N, coder, width=width, stride=stride, rate=rate, centroids=centroids)
    return fine and len(byte_B) <= coder.at, bits
