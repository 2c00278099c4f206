"""A matrix of shared weights as packed codes: how they lie in memory, and what they stand for.

Codes take 4 bits, or 8 where there are more than 16 values (a pruned weight is a value too: zero). Four words of 32
bits hold 32 codes of 4 bits, dealt so that one thread's words meet neighbouring pairs of x in one load each:

    columns   0 1  2 3  4 5  6 7 │ 8 9  10 11 12 13 14 15 │ 16 …      (pair p: columns 2p, 2p + 1)
    word      0    1    2    3   │ 0    1     2     3     │ 0
    bits      0–7                │ 8–15                   │ 16–23     (the lower column in the lower 4 bits)

and 16 codes of 8 bits in the same way, 16 bits a pair. Words lie in tiles of 16 rows by 16 words, one after another:
a tile is what a warp multiplies at a time, and 1 KiB that it reads in one piece, as 16 rows apart are not. A band of
tiles side by side is one piece as well.

    tile (d, a), at word 256·(A·d + a), A tiles to a band     row 16·d        words 16·a … 16·a + 15
                                                              row 16·d + 1    words 16·a … 16·a + 15     …

Where most weights are pruned, a list of (column, code) words by row takes fewer bytes, and bytes are what such a
product takes time for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

TILE = 16  # rows, and words of a row
_MOST_WORDS, _LEAST_WORDS = 128, TILE  # of a row that a program takes at a time


def tiled(word_RS: Tensor) -> Tensor:
    """Words by rows as tiles, D bands of A tiles; zeros where a tile reaches beyond the last row or word."""
    rows, stride = word_RS.shape
    full = F.pad(word_RS, (0, -stride % TILE, 0, -rows % TILE))
    return full.view(-(-rows // TILE), TILE, -(-stride // TILE), TILE).transpose(1, 2).contiguous()


def untiled(word_DAIJ: Tensor, *, rows: int, stride: int) -> Tensor:
    """Words by rows again, without what was padded."""
    down, across = word_DAIJ.shape[:2]
    return word_DAIJ.transpose(1, 2).reshape(TILE * down, TILE * across)[:rows, :stride]


@dataclass(frozen=True, eq=False)
class PackedCodes:
    """D bands of A tiles, of I rows by J words; V values."""

    rows: int
    columns: int
    bits: int
    word_DAIJ: Tensor  # noqa: N815 -- int32
    value_V: Tensor  # noqa: N815 -- float32, 16 or 256 of them
    half_256: Tensor  # by a byte of codes: two values in half precision as one int32 (of 8 bits: the same one twice)
    brain_256: Tensor  # the same in bfloat16
    values: int  # how many of V are used

    @property
    def stride(self) -> int:
        """Words of a row."""
        return TILE * self.word_DAIJ.shape[1]

    @property
    def nbytes(self) -> int:
        """What a product reads."""
        return self.word_DAIJ.nbytes + self.value_V.nbytes


@dataclass(frozen=True, eq=False)
class ListedCodes:
    """K words of a column and a code; row r has those from begin[r] on."""

    rows: int
    columns: int
    word_K: Tensor  # noqa: N815 -- int32
    begin_R: Tensor  # noqa: N815 -- int32
    value_V: Tensor  # noqa: N815

    @property
    def nbytes(self) -> int:
        """What a product reads."""
        return self.word_K.nbytes + self.begin_R.nbytes + self.value_V.nbytes


Codes = PackedCodes | ListedCodes


def _values(code_N: NDArray[Any], codebook_K: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Codes from 0 on and what they stand for; without pruned weights zero takes no code."""
    if len(code_N) and code_N.min() > 0:
        return code_N - 1, codebook_K
    return code_N, np.concatenate([np.zeros(1, np.float32), codebook_K])


def packed(code_N: NDArray[Any], *, rows: int, codebook_K: NDArray[np.float32], device: torch.device) -> PackedCodes:
    """The matrix of codes (row-major; 0: no weight, k: centroid k − 1) in 4 or 8 bits each. At most 256 values."""
    index_N, value_V = _values(code_N, codebook_K)
    bits = 4 if len(value_V) <= 16 else 8
    columns = len(code_N) // rows
    word_RS = torch.from_numpy(_dealt(index_N.reshape(rows, columns), bits).view(np.int32))
    table_V = torch.zeros(1 << bits)
    table_V[: len(value_V)] = torch.from_numpy(value_V)
    return PackedCodes(
        rows, columns, bits, tiled(word_RS).to(device), table_V.to(device),
        _by_byte(table_V.half()).to(device), _by_byte(table_V.bfloat16()).to(device), len(value_V),
    )  # fmt: skip


def _dealt(index_RC: NDArray[Any], bits: int) -> NDArray[np.uint32]:
    """Words by rows, as many to a row as programs can share."""
    rows, columns, codes = *index_RC.shape, 32 // bits
    width = max(_LEAST_WORDS, min(_MOST_WORDS, 1 << (-(-columns // codes) - 1).bit_length()))
    stride = -(-columns // (codes * width)) * width
    full_RC = np.zeros((rows, stride * codes), np.uint8)
    full_RC[:, :columns] = index_RC
    dealt = full_RC.reshape(rows, stride // 4, codes // 2, 4, 2)  # row, four words, pair of a word, word, half
    word = np.zeros((rows, stride // 4, 4), np.uint32)
    for i in range(codes // 2):
        for half in range(2):
            word |= dealt[:, :, i, :, half].astype(np.uint32) << np.uint32(bits * (2 * i + half))
    return word.reshape(rows, stride)


def _by_byte(value_V: Tensor) -> Tensor:
    """What a byte stands for, as 256 words of two 16-bit values: two codes of 4 bits, or one of 8 bits twice."""
    number_V = value_V.view(torch.int16).to(torch.int32) & 0xFFFF
    low, high = (number_V[None, :], number_V[:, None]) if len(value_V) == 16 else (number_V, number_V)
    return (low | high << 16).reshape(-1)


def listed(code_N: NDArray[Any], *, rows: int, codebook_K: NDArray[np.float32], device: torch.device) -> ListedCodes:
    """The same matrix as lists. At most 256 centroids and 2²³ columns."""
    columns = len(code_N) // rows
    place_K = np.flatnonzero(code_N)
    word_K = (place_K % columns << 8) | (code_N[place_K].astype(np.int64) - 1)
    begin_R = np.zeros(rows + 1, np.int32)
    np.cumsum(np.bincount(place_K // columns, minlength=rows), out=begin_R[1:])
    table_V = np.zeros(256, np.float32)
    table_V[: len(codebook_K)] = codebook_K
    return ListedCodes(
        rows, columns, torch.from_numpy(word_K.astype(np.int32)).to(device), torch.from_numpy(begin_R).to(device),
        torch.from_numpy(table_V).to(device),
    )  # fmt: skip


def unpacked(matrix: Codes) -> Tensor:
    """The weights again, R × C in single precision."""
    if isinstance(matrix, ListedCodes):
        dense = matrix.value_V.new_zeros(matrix.rows, matrix.columns)
        row_K = torch.repeat_interleave(torch.arange(matrix.rows, device=dense.device), matrix.begin_R.diff())
        dense[row_K, (matrix.word_K >> 8).long()] = matrix.value_V[(matrix.word_K & 255).long()]
        return dense
    codes, word_RS = 32 // matrix.bits, untiled(matrix.word_DAIJ, rows=matrix.rows, stride=matrix.stride)
    word = word_RS.view(matrix.rows, -1, 4)
    parts = [(word >> (matrix.bits * k)) & ((1 << matrix.bits) - 1) for k in range(codes)]
    dealt = torch.stack(parts, 2).view(matrix.rows, -1, codes // 2, 2, 4).transpose(3, 4)
    return matrix.value_V[dealt.reshape(matrix.rows, -1)[:, : matrix.columns].long()]
