"""Lengths inside messages: written as bytes, and read back, many at a time.

A GPU is made to wait by every number that goes to it or comes from it, so a length that was written once is written
again from what is there already, and the lengths of several messages are fetched together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=1024)
def length_bytes(length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A length as bytes, to be copied from and never written to.

    >>> length_bytes(258, torch.int32, torch.device("cpu"))
    tensor([2, 1, 0, 0], dtype=torch.uint8)
    """
    return torch.tensor([length], dtype=dtype).view(torch.uint8).to(device)


def read_lengths(heads: Sequence[Tensor], dtype: torch.dtype) -> list[int]:
    """The lengths that stand in ``heads``; −1 where one is cut short.

    >>> read_lengths([torch.tensor([2, 1, 0, 0], dtype=torch.uint8), torch.empty(3, dtype=torch.uint8)], torch.int32)
    [258, -1]
    """
    whole = [head for head in heads if head.numel() == dtype.itemsize]
    found = iter(torch.cat(whole).view(dtype).tolist() if whole else ())
    return [next(found) if head.numel() == dtype.itemsize else -1 for head in heads]
