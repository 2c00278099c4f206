"""The boundary between two stages: activations one way, errors the other, as messages that a header may describe.

header   9 × int64: dtype, number of dimensions, up to 6 dimensions, bytes of the body
body     the tensor as its codec writes it
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError

HEADER_INTS = 9
MOST_DIMS = HEADER_INTS - 3
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def header(tensor: Tensor, nbytes: int | None = None) -> Tensor:
    """What a receiver must know before the body comes; ``nbytes`` is its size where a codec wrote it.

    >>> shape_of(header(torch.zeros(2, 3, dtype=torch.bfloat16)), most_bytes=100)
    (torch.bfloat16, (2, 3), 12)
    """
    if tensor.dtype not in _DTYPES or tensor.dim() > MOST_DIMS:
        raise PayloadError(
            f"a stage passed on a tensor of {tensor.dtype} with {tensor.dim()} dimensions; floating-point tensors of "
            f"at most {MOST_DIMS} dimensions can cross a boundary"
        )
    numbers = [_DTYPES.index(tensor.dtype), tensor.dim(), *tensor.shape]
    padding = [0] * (HEADER_INTS - 1 - len(numbers))
    return torch.tensor([*numbers, *padding, tensor.nbytes if nbytes is None else nbytes], dtype=torch.int64)


def shape_of(head: Tensor, *, most_bytes: int) -> tuple[torch.dtype, tuple[int, ...], int]:
    """Dtype, shape and bytes that a header announces, refused if they make no sense or are too many."""
    kind, dims, *sizes, nbytes = head.tolist()
    if not (0 <= kind < len(_DTYPES) and 0 <= dims <= MOST_DIMS and nbytes >= 0 and all(size >= 0 for size in sizes)):
        raise PayloadError(f"a boundary message begins with {head.tolist()}, which is no header")
    dtype, shape = _DTYPES[kind], tuple(sizes[:dims])
    if max(nbytes, prod(shape) * dtype.itemsize) > most_bytes:
        raise PayloadError(f"a boundary message announces {shape} of {dtype}, more than {most_bytes} bytes")
    return dtype, shape, nbytes
