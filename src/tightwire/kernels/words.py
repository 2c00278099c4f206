"""A sparse matrix of shared weights as words: products computed from the compressed form on a CPU.

A word is a column and a code in 16 bits, or in 32 where there are more than 32 centroids:

    15          5 4     0         31          16 15          0
    ┌────────────┬───────┐        ┌─────────────┬─────────────┐
    │   column   │ code  │        │   column    │    code     │        weight = codebook[code]
    └────────────┴───────┘        └─────────────┴─────────────┘

Columns count from the beginning of a block of 2047, so that the block's part of x (8 KiB) stays in the first cache
while all rows go by. The words of a block stand row after row; without AVX-512 a row's are padded to a multiple of four
with column 2047, where x has a zero. Relative indices (Han, Mao, Dally: Deep Compression. ICLR 2016) are for the file:
a sum over differences would make every look-up wait for the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightwire.kernels.compiled import compiled

WIDTH = 2047  # columns of a block; one more is the zero behind them
SHORT_BITS, LONG_BITS = 5, 16
FAST_STEP, STEP = 1, 4  # words to a multiple of which a row is padded, for AVX-512 and without
LANES = 16  # a batch is padded to a multiple of these
_FEW = 4  # vectors up to which one after another is as fast as side by side
_WORTH_A_THREAD = 1 << 19  # multiplications
_WHAT = "running from shared weights"

Codes = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Words:
    """R rows of W words in B blocks of columns; S = B·2048 slots, as many as columns and zeros."""

    rows: int
    columns: int
    word_W: NDArray[np.uint16] | NDArray[np.uint32]  # noqa: N815
    begin_BR: NDArray[np.int32]  # noqa: N815 -- B × (R + 1): where the words of a block and row begin
    end_BR: NDArray[np.int32]  # noqa: N815 -- B × R: where its pads begin
    codebook_K: NDArray[np.float32]  # noqa: N815
    step: int  # words to a multiple of which rows are padded

    @property
    def bits(self) -> int:
        """Of a code."""
        return SHORT_BITS if self.word_W.dtype == np.uint16 else LONG_BITS

    @cached_property
    def kernel(self) -> Callable[..., None]:
        """What multiplies one vector by these words."""
        fast = _avx512() if self.step == FAST_STEP else None
        if fast is not None:
            return fast.one_short  # type: ignore[no-any-return]
        plain = compiled("numba", _WHAT, "words")
        assert plain is not None
        return plain.one_short if self.bits == SHORT_BITS else plain.one_long  # type: ignore[no-any-return]

    @property
    def nnz(self) -> int:
        """Words that are no pads."""
        return int((self.end_BR - self.begin_BR[:, :-1]).sum(dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """What a product reads."""
        return self.word_W.nbytes + self.begin_BR.nbytes + self.end_BR.nbytes + self.codebook_K.nbytes

    @property
    def column_S(self) -> NDArray[np.int64]:  # noqa: N802
        """The column of a slot; 0 where there is none."""
        slot_S = np.arange(len(self.begin_BR) * (WIDTH + 1))
        column_S = slot_S - slot_S // (WIDTH + 1)
        column_S[(slot_S % (WIDTH + 1) == WIDTH) | (column_S >= self.columns)] = 0
        return column_S


def words(code_N: Codes, *, rows: int, codebook_K: NDArray[np.float32], shift_R: NDArray[np.int64] | None = None,
          columns: int | None = None) -> Words:  # fmt: skip
    """The matrix of codes (row-major; 0: no weight, k: centroid k − 1) as words.

    With ``shift_R`` the first code of row r belongs to column ``shift_R[r]`` of ``columns``: grouped convolutions.
    """
    own = len(code_N) // rows if rows else 0
    columns = own if columns is None else columns
    shift_R = np.zeros(rows, np.int64) if shift_R is None else shift_R
    short = len(codebook_K) <= 1 << SHORT_BITS
    bits = SHORT_BITS if short else LONG_BITS
    step = FAST_STEP if short and _avx512() is not None else STEP
    blocks = -(-columns // WIDTH)
    begin_BR, end_BR = np.zeros((blocks, rows + 1), np.int32), np.zeros((blocks, rows), np.int32)
    kernel = compiled("numba", "laying out shared weights", "words") or _plain()
    total = kernel.count(code_N, own, shift_R, step, begin_BR, end_BR)
    word_W = np.full(total + LANES, WIDTH << bits, np.uint16 if short else np.uint32)
    kernel.fill(code_N, own, shift_R, bits, begin_BR, word_W)
    entries = max(1 << SHORT_BITS, len(codebook_K))
    padded_K = np.zeros(entries, np.float32)
    padded_K[: len(codebook_K)] = codebook_K
    return Words(rows, columns, word_W, begin_BR, end_BR, padded_K, step)


@cache
def _avx512() -> ModuleType | None:
    """The AVX-512 kernel, where both the processor and Numba have it."""
    module = compiled("numba", _WHAT, "avx512")
    return module if module is not None and module.present() else None


def _plain() -> ModuleType:
    from tightwire.kernels import plain_words  # noqa: PLC0415 -- where there is no compiler

    return plain_words


def times(matrix: Words, x_BC: Tensor) -> Tensor:
    """``x · Wᵀ`` for float32 vectors on the CPU, B × C → B × R."""
    if x_BC.dim() != 2 or x_BC.shape[1] != matrix.columns or x_BC.dtype != torch.float32 or x_BC.is_cuda:
        raise ValueError(f"{matrix.columns} columns take float32 vectors on the CPU, not {x_BC.dtype} {x_BC.shape}")
    if compiled("numba", _WHAT, "words") is None:
        return torch.from_numpy(_plain().times(matrix, x_BC.numpy()))
    if len(x_BC) <= _FEW:
        return _one_by_one(matrix, x_BC.contiguous())
    lanes = -(-len(x_BC) // LANES) * LANES
    x_CL = x_BC.new_zeros(matrix.columns, lanes)
    x_CL[:, : len(x_BC)] = x_BC.T
    y_RL = slide(matrix, x_CL.flatten(), at=Stretches.of(matrix, np.arange(matrix.columns) * lanes), lanes=lanes)
    return y_RL[:, : len(x_BC)].T.contiguous()


def _one_by_one(matrix: Words, x_BC: Tensor) -> Tensor:
    """Few vectors. Short, because after a large layer the interpreter itself is no longer in the cache."""
    kernel, rows, columns = matrix.kernel, matrix.rows, matrix.columns
    y_BR = torch.empty(len(x_BC), rows)
    y, x = y_BR.data_ptr(), x_BC.data_ptr()
    threads = _threads(rows, len(matrix.word_W))
    for b in range(len(x_BC)):
        given = (y + 4 * rows * b, x + 4 * columns * b, columns, matrix.word_W, matrix.begin_BR, matrix.codebook_K)
        if threads == 1:
            kernel(*given, 0, rows)
        else:
            _share_out(partial(kernel, *given), rows, threads)
    return y_BR


@dataclass(frozen=True, eq=False)
class Stretches:
    """Where in x every column's stretch begins, by block and slot."""

    start_BS: NDArray[np.int64]  # noqa: N815
    start_C: NDArray[np.int64]  # noqa: N815
    last: int

    @classmethod
    def of(cls, matrix: Words, start_C: NDArray[np.int64]) -> Stretches:
        """Those of a matrix whose column c begins at ``start_C[c]``."""
        if len(start_C) != matrix.columns or (len(start_C) and int(start_C.min()) < 0):
            raise ValueError(f"{len(start_C)} beginnings from {start_C.min()} on do not suit {matrix.columns} columns")
        by_slot = start_C[matrix.column_S] if matrix.columns else np.zeros(0, np.int64)
        return cls(by_slot.reshape(-1, WIDTH + 1), start_C, int(start_C.max()) if len(start_C) else 0)


def slide(matrix: Words, x: Tensor, *, at: Stretches, lanes: int) -> Tensor:
    """``y[r, l] = Σ_c W[r, c] · x[start[c] + l]``: R × lanes, a multiple of 16. Stretches may overlap."""
    if lanes % LANES:
        raise ValueError(f"{lanes} lanes are no multiple of {LANES}")
    if at.last + lanes > len(x):  # a kernel does not look
        raise ValueError(f"a stretch of {lanes} from {at.last} on does not lie within {len(x)} numbers")
    lane_kernel = compiled("numba", _WHAT, "lanes")
    if lane_kernel is None:
        return torch.from_numpy(_plain().slide(matrix, x.numpy(), at.start_C, lanes))
    y = np.empty(matrix.rows * lanes, np.float32)
    x_, m = x.numpy(), matrix

    def part(first: int, last: int) -> None:
        lane_kernel.many(y, x_, m.word_W, m.begin_BR, m.end_BR, m.codebook_K, at.start_BS, lanes, first, last)

    _share_out(part, matrix.rows, _threads(matrix.rows, len(matrix.word_W) * lanes // 4))
    return torch.from_numpy(y).view(matrix.rows, lanes)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="words")


def _threads(rows: int, work: int) -> int:
    """As many threads as torch has and the work is worth."""
    return max(1, min(torch.get_num_threads(), work // _WORTH_A_THREAD, rows))


def _share_out(part: Callable[[int, int], None], rows: int, threads: int) -> None:
    """All rows, by some threads. Kernels hold no lock of the interpreter."""
    if threads == 1:
        part(0, rows)
        return
    edges = [rows * k // threads for k in range(threads + 1)]
    jobs = [_pool(threads).submit(part, a, b) for a, b in pairwise(edges[:-1])]
    part(edges[-2], edges[-1])
    for job in jobs:
        job.result()
