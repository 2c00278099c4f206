"""`kernels.words` in NumPy: what the compiled kernels must equal, and what runs where there is no compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tightwire.kernels.words import Codes, Words

_Ints = NDArray[np.int64]
WIDTH = 2047  # as in kernels.words


def _cells(code_N: Codes, columns: int, shift_R: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Where codes stand that are not 0, in the order of blocks, then rows: block, row, and place among the codes."""
    place_K = np.flatnonzero(code_N)
    row_K = place_K // max(columns, 1)
    block_K = (shift_R[row_K] + place_K % max(columns, 1)) // WIDTH
    order_K = np.lexsort((place_K, block_K))
    return block_K[order_K], row_K[order_K], place_K[order_K]


def count(code_N: Codes, columns: int, shift_R: _Ints, step: int, begin_BR: NDArray[np.int32],
          end_BR: NDArray[np.int32]) -> int:  # fmt: skip
    """How many words the matrix takes; ``begin_BR`` and ``end_BR`` say where those of a block and row stand."""
    kept_BR = np.zeros(end_BR.shape, np.int64)
    block_K, row_K, _ = _cells(code_N, columns, shift_R)
    np.add.at(kept_BR, (block_K, row_K), 1)
    after = np.cumsum(-(-kept_BR // step) * step).reshape(end_BR.shape)
    begin_BR[:, 1:] = after
    begin_BR[1:, 0] = begin_BR[:-1, -1]
    end_BR[:] = begin_BR[:, :-1] + kept_BR
    return int(after[-1, -1]) if after.size else 0


def fill(code_N: Codes, columns: int, shift_R: _Ints, bits: int, begin_BR: NDArray[np.int32],
         word_W: NDArray[np.uint16] | NDArray[np.uint32]) -> None:  # fmt: skip
    """Write the words in place of pads."""
    block_K, row_K, place_K = _cells(code_N, columns, shift_R)
    cell_K = block_K * len(shift_R) + row_K
    first_K = np.r_[True, cell_K[1:] != cell_K[:-1]] if len(cell_K) else np.zeros(0, bool)
    rank_K = np.arange(len(cell_K)) - np.maximum.accumulate(np.where(first_K, np.arange(len(cell_K)), 0))
    slot_K = shift_R[row_K] + place_K % max(columns, 1) - block_K * WIDTH
    word_W[begin_BR[block_K, row_K] + rank_K] = (slot_K << bits) | (code_N[place_K].astype(np.int64) - 1)


def _weights(matrix: Words) -> tuple[_Ints, _Ints, NDArray[np.float32]]:
    """Row, column and weight of every word that is no pad."""
    kept_BR = matrix.end_BR - matrix.begin_BR[:, :-1]
    blocks, rows = kept_BR.shape
    cell_K = np.repeat(np.arange(blocks * rows), kept_BR.reshape(-1))
    inside = np.zeros(len(matrix.word_W) + 1, np.int64)
    np.add.at(inside, matrix.begin_BR[:, :-1].reshape(-1), 1)
    np.add.at(inside, matrix.end_BR.reshape(-1), -1)
    word_K = matrix.word_W[np.cumsum(inside)[:-1] > 0].astype(np.int64)
    slot_K = cell_K // max(rows, 1) * (len(matrix.column_S) // max(blocks, 1)) + (word_K >> matrix.bits)
    weight_K = matrix.codebook_K[word_K & ((1 << matrix.bits) - 1)]
    return cell_K % max(rows, 1), matrix.column_S[slot_K], weight_K


def times(matrix: Words, x_BC: NDArray[np.float32]) -> NDArray[np.float32]:
    """``x · Wᵀ``."""
    row_K, column_K, weight_K = _weights(matrix)
    y_RB = np.zeros((matrix.rows, len(x_BC)), np.float32)
    np.add.at(y_RB, row_K, weight_K[:, None] * x_BC.T[column_K])
    return np.ascontiguousarray(y_RB.T)


def slide(matrix: Words, x: NDArray[np.float32], start_C: _Ints, lanes: int) -> NDArray[np.float32]:
    """``y[r, l] = Σ_c W[r, c] · x[start[c] + l]``."""
    row_K, column_K, weight_K = _weights(matrix)
    y_RL = np.zeros((matrix.rows, lanes), np.float32)
    for row, column, weight in zip(row_K, column_K, weight_K, strict=True):
        y_RL[row] += weight * x[start_C[column] : start_C[column] + lanes]
    return y_RL
