"""A layer's weights as one sparse matrix: rows are outputs, columns are inputs times positions of the kernel.

Groups of a convolution need no loop: the rows of group g simply begin at column g · (inputs / groups) · positions.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightwire.compress.shared_weights import SharedWeights
from tightwire.kernels.words import Words, words


def shifts(shared: SharedWeights, groups: int) -> NDArray[np.int64]:
    """The first column of every row."""
    rows = shared.shape[0]
    own = shared.numel // rows if rows else 0
    return np.repeat(np.arange(groups), rows // groups) * own


def as_words(shared: SharedWeights, groups: int = 1) -> Words:
    """The matrix as words, for the compressed form."""
    rows = shared.shape[0]
    columns = groups * (shared.numel // rows) if rows else 0
    return words(
        shared.code_N, rows=rows, codebook_K=shared.codebook_K, shift_R=shifts(shared, groups), columns=columns
    )


def as_csr(shared: SharedWeights, groups: int = 1) -> Tensor:
    """The matrix in compressed sparse rows with 32-bit indices, which torch multiplies faster than 64-bit ones."""
    rows = shared.shape[0]
    own = shared.numel // rows if rows else 0
    place_K = np.flatnonzero(shared.code_N)
    row_K = place_K // max(own, 1)
    column_K = place_K % max(own, 1) + shifts(shared, groups)[row_K]
    crow = np.zeros(rows + 1, np.int32)
    np.cumsum(np.bincount(row_K, minlength=rows), out=crow[1:])
    value_K = shared.codebook_K[shared.code_N[place_K].astype(np.int64) - 1]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support", category=UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(crow), torch.from_numpy(column_K.astype(np.int32)), torch.from_numpy(value_K),
            size=(rows, groups * own), check_invariants=False,
        )  # fmt: skip


def csr_nbytes(matrix: Tensor) -> int:
    """What the three arrays take."""
    return sum(part.nbytes for part in (matrix.crow_indices(), matrix.col_indices(), matrix.values()))


def first_rows(shared: SharedWeights, rows: int) -> SharedWeights:
    """The same tensor cut off after some rows."""
    own = shared.numel // shared.shape[0]
    return SharedWeights((rows, *shared.shape[1:]), shared.code_N[: rows * own], shared.codebook_K)
