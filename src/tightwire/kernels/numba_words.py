"""Building a matrix of words (`kernels.words`) and multiplying one vector by it, compiled by Numba.

Four sums run beside each other, and the compiler may not reorder them: left to itself it turns the look-ups into
gathers, which take three times as long.
"""
# mypy: disable-error-code="untyped-decorator,call-arg,no-untyped-call,unreachable"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

WIDTH = 2047  # as in kernels.words
array_at: Any = numba.carray  # type: ignore[attr-defined]


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """An address as one of numbers in single precision.

    Tensors are handed over by address: making arrays of them takes a tenth of a large layer's time when the cache is
    cold.
    """
    return types.CPointer(types.float32)(types.intp), _to_pointer


def _to_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.inttoptr(args[0], context.get_value_type(signature.return_type))


@numba.njit(cache=True, nogil=True)
def count(code: Any, columns: int, shift: Any, step: int, begin: Any, end: Any) -> int:
    """How many words the matrix takes; ``begin`` and ``end`` say where those of a block and row stand."""
    n, rows = 0, len(shift)
    for block in range(begin.shape[0]):
        for row in range(rows):
            begin[block, row] = n
            low = max(0, block * WIDTH - shift[row])
            high = min(columns, (block + 1) * WIDTH - shift[row])
            kept = 0
            for at in range(row * columns + low, row * columns + high):
                kept += code[at] != 0
            end[block, row] = n + kept
            n += (kept + step - 1) // step * step
        begin[block, rows] = n
    return n


@numba.njit(cache=True, nogil=True)
def fill(code: Any, columns: int, shift: Any, bits: int, begin: Any, word: Any) -> None:
    """Write the words in place of pads."""
    for block in range(begin.shape[0]):
        for row in range(len(shift)):
            n = begin[block, row]
            base = shift[row] - block * WIDTH
            for column in range(max(0, -base), min(columns, WIDTH - base)):
                k = code[row * columns + column]
                if k != 0:
                    word[n] = ((base + column) << bits) | (k - 1)
                    n += 1


@numba.njit(cache=True, nogil=True)
def spread(x: int, columns: int, blocks: int) -> Any:
    """The numbers at an address by blocks, each with a zero behind it, where pads point."""
    given = array_at(pointer(x), columns)
    out = np.zeros((blocks, WIDTH + 1), np.float32)
    for block in range(blocks):
        piece = given[block * WIDTH : (block + 1) * WIDTH]
        out[block, : len(piece)] = piece
    return out


def _one(bits: int) -> Callable[..., None]:
    """``y[first:last] = W[first:last] · x`` for words whose lowest bits are the code; y and x are addresses."""
    low = (1 << bits) - 1

    def one(out: int, x: int, columns: int, word: Any, begin: Any, codebook: Any, first: int, last: int) -> None:
        y = array_at(pointer(out), last)
        y[first:last] = 0
        spread_x = spread(x, columns, begin.shape[0])
        for block in range(begin.shape[0]):
            xb = spread_x[block]
            for row in range(first, last):
                a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
                here = word[begin[block, row] : begin[block, row + 1]]
                for q in range(len(here) // 4):
                    w = here[4 * q]
                    a += codebook[w & low] * xb[w >> bits]
                    w = here[4 * q + 1]
                    b += codebook[w & low] * xb[w >> bits]
                    w = here[4 * q + 2]
                    c += codebook[w & low] * xb[w >> bits]
                    w = here[4 * q + 3]
                    d += codebook[w & low] * xb[w >> bits]
                y[row] += (a + b) + (c + d)

    compiled: Callable[..., None] = numba.njit(cache=True, nogil=True, fastmath={"contract"})(one)
    return compiled


one_short, one_long = _one(5), _one(16)
