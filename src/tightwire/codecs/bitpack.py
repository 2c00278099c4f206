"""Bits and gaps as bytes, without a byte to spare."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tightwire.algebra.errors import PayloadError

GAP_SPAN = 1 << 16
"""How far one 16-bit gap reaches."""


def pack_bits(bit_N: Tensor) -> Tensor:
    """Eight booleans a byte, lowest bit first.

    >>> pack_bits(torch.tensor([True, False, True])).tolist()
    [5]
    """
    padded = F.pad(bit_N.to(torch.uint8), (0, -bit_N.numel() % 8)).view(-1, 8)
    byte_B = padded[:, 0].clone()
    for place in range(1, 8):
        byte_B |= padded[:, place] << place
    return byte_B


def unpack_bits(byte_B: Tensor, numel: int) -> Tensor:
    """The first ``numel`` booleans of `pack_bits`' bytes."""
    place_8 = torch.arange(8, dtype=torch.uint8, device=byte_B.device)
    return ((byte_B[:, None] >> place_8) & 1).flatten()[:numel].bool()


def gaps_from_index(index_K: Tensor, value_K: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending positions as 16-bit gaps: (gap_T, value_T), T ≥ K.

    A gap stores the distance from the position before, less one (the first from −1). Where the distance exceeds
    `GAP_SPAN`, fillers of value 0 bridge it.

    >>> gaps_from_index(torch.tensor([2, 3, 70000]), torch.tensor([1., 2., 3.]))
    (tensor([   2,    0,   -1, 4460], dtype=torch.int16), tensor([1., 2., 0., 3.]))
    """
    step_K = torch.diff(index_K, prepend=index_K.new_full((1,), -1)) - 1
    filler_K = step_K // GAP_SPAN
    if not bool(filler_K.any()):
        return step_K.to(torch.int16), value_K
    end_K = torch.cumsum(filler_K + 1, 0)
    total = int(end_K[-1])
    gap_T = step_K.new_full((total,), GAP_SPAN - 1)
    value_T = value_K.new_zeros(total)
    gap_T[end_K - 1] = step_K - filler_K * GAP_SPAN
    value_T[end_K - 1] = value_K
    return gap_T.to(torch.int16), value_T


def index_from_gaps(gap_T: Tensor, numel: int) -> Tensor:
    """Positions from 16-bit gaps, fillers included; refuses one beyond ``numel``."""
    index_T = torch.cumsum((gap_T.to(torch.int64) & (GAP_SPAN - 1)) + 1, 0) - 1
    if index_T.numel() and int(index_T[-1]) >= numel:
        raise PayloadError(f"gaps lead to position {int(index_T[-1])} of a bucket of {numel} elements")
    return index_T


def most_gaps(kept: int, numel: int) -> int:
    """The most gaps that ``kept`` positions among ``numel`` can need."""
    return kept + numel // GAP_SPAN
