"""A matrix of shared weights as packed codes: products on a GPU, and their plain reference anywhere.

Codes take 4 bits, or 8 where there are more than 16 values (a pruned weight is a value too: zero). Four words of 32
bits hold 32 codes of 4 bits, dealt so that one thread's words meet neighbouring pairs of x in one load each:

    columns   0 1  2 3  4 5  6 7 │ 8 9  10 11 12 13 14 15 │ 16 …      (pair p: columns 2p, 2p + 1)
    word      0    1    2    3   │ 0    1     2     3     │ 0
    bits      0–7                │ 8–15                   │ 16–23     (the lower column in the lower 4 bits)

and 16 codes of 8 bits in the same way, 16 bits a pair. Where most weights are pruned, a list of (column, code) words by
row takes fewer bytes, and bytes are what such a product takes time for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tightwire.kernels import codebook_bulk
from tightwire.kernels.compiled import compiled

SMALL_BATCH = 16
_FOUR = 4  # bits
_KINDS = {torch.float16: "f16", torch.bfloat16: "bf16"}  # that tensor cores take
_TENSOR_CORES = (8, 0)  # the compute capability from which on they take both
_VECTORS = 8  # of a batch that a program takes
_WARPS = 8
_MOST_WORDS, _LEAST_WORDS = 128, 16  # of a row that a program takes at a time
_PROGRAMS = 512  # that keep a large GPU busy
_WHAT = "running from shared weights on the GPU"


@dataclass(frozen=True, eq=False)
class PackedCodes:
    """R rows of S words; V values."""

    rows: int
    columns: int
    bits: int
    word_RS: Tensor  # noqa: N815 -- int32
    value_V: Tensor  # noqa: N815 -- float32, 16 or 256 of them
    half_256: Tensor  # by a byte of codes: two values in half precision as one int32 (of 8 bits: the same one twice)
    brain_256: Tensor  # the same in bfloat16
    values: int  # how many of V are used

    @property
    def nbytes(self) -> int:
        """What a product reads."""
        return self.word_RS.nbytes + self.value_V.nbytes


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
    columns, codes = len(code_N) // rows, 32 // bits
    width = max(_LEAST_WORDS, min(_MOST_WORDS, 1 << (-(-columns // codes) - 1).bit_length()))
    stride = -(-columns // (codes * width)) * width
    full_RC = np.zeros((rows, stride * codes), np.uint8)
    full_RC[:, :columns] = index_N.reshape(rows, columns)
    dealt = full_RC.reshape(
        rows, stride // 4, codes // 2, 4, 2
    )  # row, four words, pair of a word, word, half of a pair
    word = np.zeros((rows, stride // 4, 4), np.uint32)
    for i in range(codes // 2):
        for half in range(2):
            word |= dealt[:, :, i, :, half].astype(np.uint32) << np.uint32(bits * (2 * i + half))
    table_V = torch.zeros(1 << bits)
    table_V[: len(value_V)] = torch.from_numpy(value_V)
    return PackedCodes(
        rows, columns, bits, torch.from_numpy(word.reshape(rows, stride).view(np.int32)).to(device), table_V.to(device),
        _by_byte(table_V.half()).to(device), _by_byte(table_V.bfloat16()).to(device), len(value_V),
    )  # fmt: skip


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
    codes = 32 // matrix.bits
    word = matrix.word_RS.view(matrix.rows, -1, 4)
    parts = [(word >> (matrix.bits * k)) & ((1 << matrix.bits) - 1) for k in range(codes)]
    dealt = torch.stack(parts, 2).view(matrix.rows, -1, codes // 2, 2, 4).transpose(3, 4)
    return matrix.value_V[dealt.reshape(matrix.rows, -1)[:, : matrix.columns].long()]


def times(matrix: Codes, x_BC: Tensor) -> Tensor:
    """``x · Wᵀ`` in the type of x; sums in single precision. Beyond a small batch the weights are decoded first."""
    if x_BC.dim() != 2 or x_BC.shape[1] != matrix.columns:
        raise ValueError(f"{matrix.columns} columns take vectors of as many numbers, not {tuple(x_BC.shape)}")
    x_BC = x_BC.contiguous()
    if (done := bulk(matrix, x_BC)) is not None:
        return done
    family = _family(matrix, x_BC)
    kernel = compiled("triton", _WHAT, family) if family else None
    if kernel is None:
        return F.linear(x_BC, unpacked(matrix).to(x_BC.dtype))
    if isinstance(matrix, ListedCodes):
        out = x_BC.new_empty(len(x_BC), matrix.rows)
        kernel.sparse[(matrix.rows, len(x_BC))](
            matrix.word_K, matrix.begin_R, x_BC, matrix.value_V, out, matrix.rows, matrix.columns, BLOCK=256,
            num_warps=1,
        )  # fmt: skip
        return out
    if family == "tiles":
        return tiles(kernel, matrix, x_BC)
    return vector(kernel, matrix, x_BC[0])[None] if len(x_BC) == 1 else _batch(kernel, matrix, x_BC)


def _family(matrix: Codes, x_BC: Tensor) -> str | None:
    """The kernels for this: none on a CPU and for larger batches."""
    if not x_BC.is_cuda or not 0 < len(x_BC) <= SMALL_BATCH:
        return None
    if x_BC.dtype in _KINDS and isinstance(matrix, PackedCodes):
        return "tiles" if torch.cuda.get_device_capability(x_BC.device) >= _TENSOR_CORES else None
    return "codebook" if x_BC.dtype in {*_KINDS, torch.float32} else None


def bulk(matrix: Codes, x_BC: Tensor) -> Tensor | None:
    """Up to eight vectors in 16 bits by the CUDA kernel, where the GPU and the shape allow it (`codebook_bulk`)."""
    if not x_BC.is_cuda or not isinstance(matrix, PackedCodes) or matrix.bits != _FOUR:
        return None
    shape = codebook_bulk.shape_for(matrix.rows, 4 * matrix.word_RS.shape[1], x_BC)
    return codebook_bulk.product(matrix, x_BC, shape=shape) if shape else None


def tiles(kernel: Any, matrix: PackedCodes, x_BC: Tensor, *, high: int = 2, warps: int = _WARPS) -> Tensor:
    """Vectors in 16 bits: programs of ``high`` times 16 rows, whose warps share the columns (`triton_tiles`)."""
    x, pairs = _in_pairs(matrix, x_BC)
    stride = matrix.word_RS.shape[1]
    warps = min(warps, stride // 16 & -(stride // 16))
    out = x.new_empty(len(x), matrix.rows)
    kernel.product[(-(-matrix.rows // (16 * high)), -(-len(x) // _VECTORS))](
        matrix.word_RS, x.view(torch.int32), matrix.half_256 if x.dtype == torch.float16 else matrix.brain_256, out,
        matrix.rows, stride, pairs * matrix.bits // 64, len(x), BITS=matrix.bits, KIND=_KINDS[x.dtype], TILES=high,
        WARPS=warps, num_warps=warps,
    )  # fmt: skip
    return out


def _batch(kernel: Any, matrix: PackedCodes, x_BC: Tensor) -> Tensor:
    out = x_BC.new_empty(len(x_BC), matrix.rows)
    rows, words = 32, min(64, matrix.word_RS.shape[1])
    kernel.batch[(-(-matrix.rows // rows),)](
        matrix.word_RS, x_BC, matrix.value_V.to(x_BC.dtype), out, matrix.rows, matrix.columns, len(x_BC),
        matrix.word_RS.shape[1], BITS=matrix.bits, BLOCK_R=rows, BLOCK_W=words, BLOCK_B=16, num_warps=4,
    )  # fmt: skip
    return out


def vector(kernel: Any, matrix: PackedCodes, x_C: Tensor, *, way: str | None = None, rows: int = 32, width: int = 128,
           shares: int | None = None, warps: int = 8) -> Tensor:  # fmt: skip
    """One vector in single precision: programs of ``rows`` rows by ``width`` words at a time, columns in ``shares``."""
    way = way or ("shuffle" if matrix.bits == 4 or matrix.values <= 32 else "load")
    stride = matrix.word_RS.shape[1]
    width = min(width, stride)
    blocks = stride // width
    if shares is None:
        wanted = max(1, _PROGRAMS // -(-matrix.rows // rows))
        shares = max(n for n in range(1, min(blocks, wanted) + 1) if blocks % n == 0)
    x, pairs = _in_pairs(matrix, x_C[None])
    out = x.new_empty(shares, matrix.rows)
    kernel.vector[(-(-matrix.rows // rows), shares)](
        matrix.word_RS, x, matrix.value_V, out, matrix.rows, stride, stride // shares, pairs, BITS=matrix.bits, WAY=way,
        BLOCK_R=rows, BLOCK_W=width, num_warps=warps,
    )  # fmt: skip
    return out[0] if shares == 1 else out.sum(0)


def _in_pairs(matrix: PackedCodes, x_BC: Tensor) -> tuple[Tensor, int]:
    """x where a kernel may load 16 bytes at a time, and how many pairs of columns it has."""
    pairs = -(-matrix.columns // 32) * 16
    x = x_BC if matrix.columns % 32 == 0 else F.pad(x_BC, (0, 2 * pairs - matrix.columns))
    return (x if x.data_ptr() % 16 == 0 else x.clone()), pairs
