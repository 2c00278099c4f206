"""Products of vectors with a matrix of packed codes (`codebook_layout`): kernels on a GPU, their reference anywhere."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tightwire.kernels import codebook_bulk
from tightwire.kernels.codebook_layout import TILE, Codes, ListedCodes, PackedCodes, unpacked
from tightwire.kernels.compiled import compiled

SMALL_BATCH = 16
_FOUR = 4  # bits
_KINDS = {torch.float16: "f16", torch.bfloat16: "bf16"}  # that tensor cores take
_TENSOR_CORES = (8, 0)  # the compute capability from which on they take both
_VECTORS = 8  # of a batch that a program takes
_WARPS = 8
_PROGRAMS = 512  # that keep a large GPU busy
_WHAT = "running from shared weights on the GPU"


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
    """A vector in 16 bits by the CUDA kernel, where the GPU and the shape allow it (`codebook_bulk`)."""
    if not x_BC.is_cuda or not isinstance(matrix, PackedCodes) or matrix.bits != _FOUR:
        return None
    shape = codebook_bulk.shape_for(matrix.rows, 4 * matrix.stride, x_BC)
    return codebook_bulk.product(matrix, x_BC, shape=shape) if shape else None


def tiles(kernel: Any, matrix: PackedCodes, x_BC: Tensor, *, high: int = 2, warps: int = _WARPS) -> Tensor:
    """Vectors in 16 bits: programs of ``high`` times 16 rows, whose warps share the columns (`triton_tiles`)."""
    x, pairs = _in_pairs(matrix, x_BC)
    across = matrix.stride // TILE
    warps = min(warps, across & -across)
    out = x.new_empty(len(x), matrix.rows)
    kernel.product[(-(-matrix.rows // (TILE * high)), -(-len(x) // _VECTORS))](
        matrix.word_DAIJ, x.view(torch.int32), matrix.half_256 if x.dtype == torch.float16 else matrix.brain_256, out,
        matrix.rows, matrix.stride, pairs * matrix.bits // 64, len(x), BITS=matrix.bits, KIND=_KINDS[x.dtype],
        TILES=high, WARPS=warps, num_warps=warps,
    )  # fmt: skip
    return out


def _batch(kernel: Any, matrix: PackedCodes, x_BC: Tensor) -> Tensor:
    out = x_BC.new_empty(len(x_BC), matrix.rows)
    rows, words = 32, min(64, matrix.stride)
    kernel.batch[(-(-matrix.rows // rows),)](
        matrix.word_DAIJ, x_BC, matrix.value_V.to(x_BC.dtype), out, matrix.rows, matrix.columns, len(x_BC),
        matrix.stride, BITS=matrix.bits, BLOCK_R=rows, BLOCK_W=words, BLOCK_B=16, num_warps=4,
    )  # fmt: skip
    return out


def vector(kernel: Any, matrix: PackedCodes, x_C: Tensor, *, way: str | None = None, rows: int = 32, width: int = 128,
           shares: int | None = None, warps: int = 8) -> Tensor:  # fmt: skip
    """One vector in single precision: programs of ``rows`` rows by ``width`` words at a time, columns in ``shares``."""
    way = way or ("shuffle" if matrix.bits == 4 or matrix.values <= 32 else "load")
    stride = matrix.stride
    width = min(width, stride)
    blocks = stride // width
    if shares is None:
        wanted = max(1, _PROGRAMS // -(-matrix.rows // rows))
        shares = max(n for n in range(1, min(blocks, wanted) + 1) if blocks % n == 0)
    x, pairs = _in_pairs(matrix, x_C[None])
    out = x.new_empty(shares, matrix.rows)
    kernel.vector[(-(-matrix.rows // rows), shares)](
        matrix.word_DAIJ, x, matrix.value_V, out, matrix.rows, stride, stride // shares, pairs, BITS=matrix.bits,
        WAY=way, BLOCK_R=rows, BLOCK_W=width, num_warps=warps,
    )  # fmt: skip
    return out[0] if shares == 1 else out.sum(0)


def _in_pairs(matrix: PackedCodes, x_BC: Tensor) -> tuple[Tensor, int]:
    """x where a kernel may load 16 bytes at a time, and how many pairs of columns it has."""
    pairs = -(-matrix.columns // 32) * 16
    x = x_BC if matrix.columns % 32 == 0 else F.pad(x_BC, (0, 2 * pairs - matrix.columns))
    return (x if x.data_ptr() % 16 == 0 else x.clone()), pairs
