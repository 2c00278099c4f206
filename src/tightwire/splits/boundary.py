"""The boundary between two stages: activations one way, errors the other, as self-describing messages.

header   8 × int64: dtype, number of dimensions, dimensions
body     the tensor's bytes
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError

HEADER_INTS = 8
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def header(tensor: Tensor) -> Tensor:
    """What a receiver must know before the body comes.

    >>> shape_of(header(torch.zeros(2, 3, dtype=torch.bfloat16)), most_bytes=100)
    (torch.bfloat16, (2, 3))
    """
    if tensor.dtype not in _DTYPES or tensor.dim() > HEADER_INTS - 2:
        raise PayloadError(
            f"a stage passed on a tensor of {tensor.dtype} with {tensor.dim()} dimensions; floating-point tensors of "
            f"at most {HEADER_INTS - 2} dimensions can cross a boundary"
        )
    numbers = [_DTYPES.index(tensor.dtype), tensor.dim(), *tensor.shape]
    return torch.tensor(numbers + [0] * (HEADER_INTS - len(numbers)), dtype=torch.int64)


def shape_of(head: Tensor, *, most_bytes: int) -> tuple[torch.dtype, tuple[int, ...]]:
    """The dtype and shape a header announces, refused if they make no sense or too many bytes."""
    kind, dims, *sizes = head.tolist()
    if not (0 <= kind < len(_DTYPES) and 0 <= dims <= HEADER_INTS - 2 and all(size >= 0 for size in sizes)):
        raise PayloadError(f"a boundary message begins with {head.tolist()}, which is no header")
    dtype, shape = _DTYPES[kind], tuple(sizes[:dims])
    if prod(shape) * dtype.itemsize > most_bytes:
        raise PayloadError(f"a boundary message announces {shape} of {dtype}, more than {most_bytes} bytes")
    return dtype, shape
