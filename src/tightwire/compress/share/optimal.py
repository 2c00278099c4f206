"""The best clustering in one dimension, exactly, by dynamic programming.

    D[j][m] = min over i ≤ j of  D[i−1][m−1] + cost(i, j),    cost(i, j) = Σ_{i..j} h·(w − mean)²

Wang, Song: Ckmeans.1d.dp. The R Journal 2011; Grønlund, Larsen, Mathiasen, Nielsen, Schneider, Song: Fast Exact k-Means
in 1D. arXiv 1701.07204. The best i never falls as j grows, so a row takes N·log N by divide and conquer instead of N²:

    row m:        j = first ……… middle ……… last        the best i of the middle splits both halves' ranges
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError

MOST_WORK = 1 << 31  # distinct values × centroids; above, Lloyd's rounds serve as well


def optimal(
    value_N: NDArray[np.floating], k: int, *, importance_N: NDArray[np.floating] | None = None
) -> NDArray[np.float32]:
    """The ``k`` centroids (fewer, where there are fewer values) with the least sum of squares, ascending.

    >>> optimal(np.array([0.0, 0.1, 0.2, 4.0, 9.0, 9.2]), 3).tolist()
    [0.10000000149011612, 4.0, 9.100000381469727]
    """
    value_N = np.asarray(value_N, np.float64).ravel()
    if k < 1 or not len(value_N):
        raise CompressError(f"{k} centroids for {len(value_N)} weights: both must be at least 1")
    mass_N = np.ones_like(value_N) if importance_N is None else np.asarray(importance_N, np.float64).ravel()
    distinct_D, place_N = np.unique(value_N, return_inverse=True)
    mass_D: NDArray[np.float64] = np.bincount(place_N, weights=mass_N).astype(np.float64)
    distinct_D, mass_D = distinct_D[mass_D > 0], mass_D[mass_D > 0]
    k = min(k, len(distinct_D))
    if len(distinct_D) * k > MOST_WORK:
        raise CompressError(f"{len(distinct_D)} distinct weights are too many for an exact clustering; use kmeans")
    shift = distinct_D.mean()  # prefix sums of squares lose fewer digits around zero
    split_KD = _splits(distinct_D - shift, mass_D, k)
    return np.unique(_means(distinct_D, mass_D, split_KD).astype(np.float32))


def _means(
    value_D: NDArray[np.float64], mass_D: NDArray[np.float64], split_KD: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Read the clusters from the last to the first."""
    center, last = [], len(value_D) - 1
    for row in split_KD[::-1]:
        first = int(row[last])
        center.append(np.average(value_D[first : last + 1], weights=mass_D[first : last + 1]))
        last = first - 1
    return np.array(center[::-1])


@njit(cache=True, nogil=True)
def _cost(
    mass: NDArray[np.float64], moment: NDArray[np.float64], square: NDArray[np.float64], i: int, j: int
) -> float:  # pragma: no cover -- compiled
    held = mass[j + 1] - mass[i]
    first = moment[j + 1] - moment[i]
    cost: float = square[j + 1] - square[i] - first * first / held
    return max(cost, 0.0)


@njit(cache=True, nogil=True)
def _splits(
    value_D: NDArray[np.float64], mass_D: NDArray[np.float64], k: int
) -> NDArray[np.int32]:  # pragma: no cover -- compiled
    """split[m, j]: where the last of m + 1 clusters begins that cover values 0 … j."""
    count = len(value_D)
    mass, moment, square = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count + 1)
    for j in range(count):
        mass[j + 1] = mass[j] + mass_D[j]
        moment[j + 1] = moment[j] + mass_D[j] * value_D[j]
        square[j + 1] = square[j] + mass_D[j] * value_D[j] * value_D[j]
    split = np.zeros((k, count), np.int32)
    before, now = np.empty(count), np.empty(count)
    for j in range(count):
        before[j] = _cost(mass, moment, square, 0, j)
    stack = np.empty((64, 4), np.int64)  # depth: log₂ of the number of values, twice
    for m in range(1, k):
        top = 0
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = m, count - 1, m, count - 1
        while top >= 0:
            low, high, least, most = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
            top -= 1
            if low > high:
                continue
            j = (low + high) // 2
            best, found = least, np.inf
            for i in range(least, min(most, j) + 1):
                total = before[i - 1] + _cost(mass, moment, square, i, j)
                if total < found:
                    found, best = total, i
            now[j], split[m, j] = found, best
            top += 2
            stack[top - 1, 0], stack[top - 1, 1], stack[top - 1, 2], stack[top - 1, 3] = low, j - 1, least, best
            stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = j + 1, high, best, most
        before, now = now, before
    return split
