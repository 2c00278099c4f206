"""Clustering for small files: squares and bits in one cost.

    min  Σᵢ hᵢ·(wᵢ − c(i))² + λ·bits(i),      bits of code k = −log₂ p_k,   p_k the share of weights that have it

Chou, Lookabaugh, Gray: Entropy-constrained vector quantization. IEEE Trans. ASSP 1989. After an entropy coder a code
that is common costs little, so a weight on the border goes to the commoner side. Zero is one of the codes, by far the
commonest in a pruned layer: with λ > 0, small weights whose place would cost more than they bring are pruned as well
(as Wiedemann et al. choose their levels in DeepCABAC, IEEE JSTSP 2020).

    (w − c)² + λr = w² + (c² + λr − 2cw):   a line in w for each centroid; the least of all lines is their lower
    envelope, so regions are intervals again, and a code that is nowhere the least is gone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError
from tightwire.compress.share.kmeans import Floats, kmeans

ROUNDS = 40


def entropy_constrained(
    value_N: NDArray[np.floating],
    k: int,
    *,
    bit_cost: float,
    zeros: int = 0,
    rounds: int = ROUNDS,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Codes (0: zero, k ≥ 1: a centroid) and at most ``k`` ascending centroids for the weights that were kept.

    ``bit_cost`` is λ, in squares of a weight; ``zeros`` is how many weights of the layer were pruned before.

    >>> code, center = entropy_constrained(np.array([-1.0, -1.1, 0.01, 2.0, 2.1, 2.0]), 2, bit_cost=0.01, zeros=20)
    >>> code.tolist(), [round(float(c), 2) for c in center]
    ([1, 1, 0, 2, 2, 2], [-1.05, 2.03])
    """
    given_N: Floats = np.asarray(value_N, np.float64).ravel()
    if bit_cost < 0:
        raise CompressError(f"bit_cost={bit_cost}: a bit costs at least nothing")
    if not len(given_N):
        return np.empty(0, np.int64), np.empty(0, np.float32)
    order_N = np.argsort(given_N, kind="stable")
    sorted_N: Floats = given_N[order_N]
    moment = np.concatenate([[0.0], np.cumsum(sorted_N)])
    level_L = np.unique(np.append(kmeans(sorted_N, k).astype(np.float64), 0.0))
    bits_L = np.full(len(level_L), np.log2(len(level_L)))
    bits_L[level_L == 0] = -np.log2((zeros + 1) / (zeros + len(given_N) + 1))
    for _ in range(rounds):
        used, bound = _regions(sorted_N, level_L, bit_cost * bits_L)
        before = level_L
        level_L, bits_L = _move(level_L[used], bound, moment, zeros)
        if len(before) == len(level_L) and np.allclose(before, level_L, rtol=1e-7, atol=0):
            break
    used, bound = _regions(sorted_N, level_L, bit_cost * bits_L)
    kept = np.flatnonzero((np.diff(bound) > 0) & (level_L[used] != 0))
    code_L = np.zeros(len(used), np.int64)
    code_L[kept] = np.arange(1, len(kept) + 1)
    code_N = np.empty(len(given_N), np.int64)
    code_N[order_N] = np.repeat(code_L, np.diff(bound))
    return code_N, level_L[used][kept].astype(np.float32)


def _move(level_L: Floats, bound: NDArray[np.int64], moment: Floats, zeros: int) -> tuple[Floats, Floats]:
    """Levels at the means of their intervals, zero where it is, and the bits each takes now; empty ones are gone."""
    zero_L, held_L = level_L == 0, np.diff(bound)
    mean_L = np.where(zero_L, 0.0, np.diff(moment[bound]) / np.maximum(held_L, 1))
    count_L = held_L + np.where(zero_L, zeros, 0)
    bits_L = -np.log2(np.maximum(count_L, 0.5) / (bound[-1] + zeros))
    alive = (held_L > 0) | zero_L
    level_L, first = np.unique(mean_L[alive], return_index=True)
    return level_L, bits_L[alive][first]


def _regions(value_N: Floats, level_L: Floats, toll_L: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which levels are the cheapest somewhere, and the bounds of their intervals in the sorted values."""
    hull: list[int] = []
    edges: list[float] = []
    offset_L = level_L * level_L + toll_L
    for at in range(len(level_L)):
        while hull:
            edge = (offset_L[at] - offset_L[hull[-1]]) / (2 * (level_L[at] - level_L[hull[-1]]))
            if not edges or edge > edges[-1]:
                edges.append(edge)
                break
            hull.pop()
            edges.pop()
        hull.append(at)
    bound = np.searchsorted(value_N, np.array(edges))
    return np.array(hull), np.concatenate([[0], bound, [len(value_N)]]).astype(np.int64)
