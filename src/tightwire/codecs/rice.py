"""Rice coding of ascending positions: gaps in about 1.5 bits more than the logarithm of their mean.

    gap = q·2ᵏ + r;   r in k bits, q in unary: q zeros and a one

Rice, Plaunt: Adaptive variable-length coding. IEEE Transactions on Communications, 1971; Golomb 1966.
Gaps between positions kept at random are geometric, for which this is within a few hundredths of a bit of entropy: at a
density of 0.001 a gap takes 11.5 bits, and no gap is too long. All remainders stand first, then all unary parts, so
that both can be written and read in parallel: the ones of the unary part *are* the positions of its gaps' ends.
"""

from __future__ import annotations

from math import log2

import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.codecs.bitpack import pack_bits, unpack_bits

_MOST_K = 31


def rice_from_index(index_K: Tensor, numel: int) -> Tensor:
    """Ascending positions below ``numel`` as bytes: one for k, the remainders, the unary parts.

    >>> rice_from_index(torch.tensor([2, 3, 700]), 1000).tolist()
    [7, 2, 0, 14, 131]
    """
    if not index_K.numel():
        return index_K.new_empty(0, dtype=torch.uint8)
    gap_K = torch.diff(index_K, prepend=index_K.new_full((1,), -1)) - 1
    k = _best_k(gap_K, numel)
    end_K = torch.cumsum((gap_K >> k) + 1, 0) - 1
    unary = torch.zeros(int(end_K[-1]) + 1, dtype=torch.bool, device=index_K.device)
    unary[end_K] = True
    place_k = torch.arange(k, device=index_K.device)
    low = ((gap_K[:, None] >> place_k) & 1).flatten().bool()
    head = torch.full((1,), k, dtype=torch.uint8, device=index_K.device)
    return torch.cat([head, pack_bits(low), pack_bits(unary)])


def index_from_rice(byte_B: Tensor, count: int, numel: int) -> Tensor:
    """The ``count`` positions that `rice_from_index` wrote; refuses what cannot be such bytes."""
    if not count:
        return torch.empty(0, dtype=torch.int64, device=byte_B.device)
    k = int(byte_B[0]) if byte_B.numel() else _MOST_K + 1
    low_nbytes = -(-count * k // 8)
    if k > _MOST_K or byte_B.numel() < 1 + low_nbytes:
        raise PayloadError(f"{byte_B.numel()} bytes cannot hold {count} Rice-coded gaps with k={k}")
    low = unpack_bits(byte_B[1 : 1 + low_nbytes], count * k).view(count, k).long()
    tail = byte_B[1 + low_nbytes :]
    end_K = torch.nonzero(unpack_bits(tail, 8 * tail.numel())).flatten()
    if end_K.numel() != count:
        raise PayloadError(f"{end_K.numel()} Rice-coded gaps where {count} belong")
    quotient_K = torch.diff(end_K, prepend=end_K.new_full((1,), -1)) - 1
    place_k = torch.arange(k, device=byte_B.device)
    gap_K = (quotient_K << k) + (low << place_k).sum(1)
    index_K = torch.cumsum(gap_K + 1, 0) - 1
    if int(index_K[-1]) >= numel:
        raise PayloadError(f"gaps lead to position {int(index_K[-1])} of a bucket of {numel} elements")
    return index_K


def most_rice(count: int, numel: int) -> int:
    """The most bytes that ``count`` positions below ``numel`` can take.

    >>> most_rice(1000, 1_000_000)
    1496
    """
    if not count:
        return 0
    k = _usual_k(count, numel)
    return 1 + -(-count * k // 8) + -(-(count + (numel >> k)) // 8)


def _usual_k(count: int, numel: int) -> int:
    """The k for gaps that are geometric: 2ᵏ is about ln 2 times their mean."""
    return min(_MOST_K, max(0, round(log2(max(1.0, 0.69 * numel / count)))))


def likely_ks(count: int, numel: int) -> range:
    """The k for gaps that are geometric, and its neighbours."""
    usual = _usual_k(count, numel)
    return range(max(0, usual - 3), min(_MOST_K, usual + 1) + 1)


def _best_k(gap_K: Tensor, numel: int) -> int:
    """The k that takes fewest bytes."""
    count, near = gap_K.numel(), likely_ks(gap_K.numel(), numel)
    quotients = torch.stack([(gap_K >> k).sum() for k in near]).tolist()
    nbytes = [-(-count * k // 8) + -(-(count + total) // 8) for k, total in zip(near, quotients, strict=True)]
    return near[nbytes.index(min(nbytes))]
