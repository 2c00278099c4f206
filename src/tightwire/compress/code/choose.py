"""The smallest coder for a tensor, block by block.

A tensor is cut into blocks of whole rows, at most 2²² positions each, which are coded apart, so that they can be
decoded at once. With several blocks the bytes begin with the length of each but the last, as varints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.bits import Reader, varint
from tightwire.compress.code.fixed import Fixed
from tightwire.compress.code.huffman import Huffman
from tightwire.compress.code.mixing import Mixing
from tightwire.compress.code.pairs import Pairs
from tightwire.compress.code.protocol import Coder, Codes
from tightwire.compress.code.rans import Rans
from tightwire.compress.errors import CompressError
from tightwire.compress.shared_weights import code_type

BLOCK = 1 << 22
_SLOW, _SLOW_PRICE, _LARGE = ("mixing",), 1.01, 1 << 20
CODERS: dict[str, Coder] = {coder.name: coder for coder in (Fixed(), Pairs(Huffman()), Pairs(Rans()), Mixing())}


@dataclass(frozen=True)
class Coded:
    """Codes as bytes, and which coder reads them."""

    coder: str
    payload: bytes


def encode(code_N: Codes, *, shape: tuple[int, ...], centroids: int, coders: Sequence[Coder] = ()) -> Coded:
    """The smallest bytes among some coders (all, unless told). Ten times slower to read must be 1% smaller, if large.

    >>> coded = encode(np.zeros(1000, np.uint8), shape=(10, 100), centroids=4)
    >>> coded.coder, len(coded.payload)
    ('huffman', 3)
    """
    width = row_width(shape)
    cuts = _cuts(len(code_N), width)
    made = []
    for coder in coders or CODERS.values():
        parts = _at_once(partial(_encode_block, coder, code_N, width, centroids), cuts)
        if None not in parts:
            made.append(Coded(coder.name, _joined(parts)))
    if not made:
        raise CompressError(f"no coder is left for a tensor of shape {shape}; allow another beside mixing")
    return min(made, key=lambda coded: _price(coded, len(code_N)))


def decode(coded: Coded, *, shape: tuple[int, ...], centroids: int) -> Codes:
    """The codes; blocks side by side on all processors."""
    coder, numel, width = CODERS.get(coded.coder), prod(shape), row_width(shape)
    if coder is None:
        raise PayloadError(f"there is no coder {coded.coder!r}; there are {', '.join(CODERS)}")
    cuts = _cuts(numel, width)
    parts = pieces(coded.payload, len(cuts))
    code_N = np.empty(numel, code_type(centroids)) if len(cuts) > 1 else None

    def one(number: int) -> Codes:
        a, b = cuts[number]
        made = coder.decode(parts[number], numel=b - a, width=width, centroids=centroids)
        if code_N is None:
            return made.astype(code_type(centroids), copy=False)
        code_N[a:b] = made
        return code_N

    made: Codes = _at_once(one, range(len(cuts)))[0]
    return made


def positions_nbytes(coded: Coded, *, shape: tuple[int, ...], centroids: int) -> int | None:
    """How many of the bytes tell where zeros are; None for coders that do not tell positions apart."""
    coder, width = CODERS[coded.coder], row_width(shape)
    split = getattr(coder, "split", None)
    if split is None:
        return None
    cuts = _cuts(prod(shape), width)
    parts = pieces(coded.payload, len(cuts))
    return sum(
        int(split(part, numel=b - a, width=width, centroids=centroids))
        for part, (a, b) in zip(parts, cuts, strict=True)
    )


def pieces(payload: bytes, count: int) -> list[bytes]:
    """The bytes of each block."""
    reader = Reader(payload)
    sizes = [reader.varint(reader.left) for _ in range(count - 1)]
    return [*(reader.take(size) for size in sizes), reader.rest()]


def row_width(shape: tuple[int, ...]) -> int:
    """Positions in a row: all but the first dimension. A vector is one row.

    >>> row_width((300, 784)), row_width((20, 1, 5, 5)), row_width((7,)), row_width(())
    (784, 25, 7, 1)
    """
    return max(1, min(prod(shape[1:]) if len(shape) > 1 else prod(shape), BLOCK))


def _cuts(numel: int, width: int) -> list[tuple[int, int]]:
    step = BLOCK // width * width
    return [(a, min(numel, a + step)) for a in range(0, numel, step)] or [(0, 0)]


def _encode_block(coder: Coder, code_N: Codes, width: int, centroids: int, cut: tuple[int, int]) -> bytes | None:
    return coder.encode(code_N[slice(*cut)], width=width, centroids=centroids)


def _price(coded: Coded, numel: int) -> float:
    """Bytes; in a large tensor a slow coder must save a hundredth, for it takes seconds to read."""
    return len(coded.payload) * (_SLOW_PRICE if coded.coder in _SLOW and numel > _LARGE else 1.0)


def _joined(parts: list[bytes]) -> bytes:
    return b"".join(varint(len(part)) for part in parts[:-1]) + b"".join(parts)


def _at_once(work: Callable[[Any], Any], over: Sequence[Any]) -> list[Any]:
    """Blocks side by side: the compiled loops do not hold the interpreter's lock."""
    if len(over) == 1:
        return [work(over[0])]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(work, over))
