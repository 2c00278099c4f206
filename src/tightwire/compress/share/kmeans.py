"""k-means in one dimension: centroids c₁ < … < c_k with Σᵢ hᵢ·(wᵢ − c(i))² as small as Lloyd's rounds make it.

    assign:  a weight goes to the nearest centroid, so clusters are intervals of the sorted weights
    move:    a centroid goes to the (weighted) mean of its interval

Han, Mao, Dally: Deep Compression. ICLR 2016, section 3; Lloyd: Least squares quantization in PCM. IEEE Trans. IT 1982.
Linear starts keep the few large weights, which matter most; density and random starts mostly miss them (section 3.2).
Weights are sorted once, sums stand in prefix arrays, and a round costs k binary searches whatever the layer's size.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError

Floats: TypeAlias = NDArray[np.float64]
Start: TypeAlias = Literal["linear", "density", "random"]
ROUNDS = 300


def start_at(value_N: NDArray[np.floating], k: int, *, start: Start = "linear", seed: int = 0) -> Floats:
    """Where centroids begin: equidistant from the least to the greatest, at equal shares, or at k of the values.

    >>> start_at(np.array([0.0, 1.0, 1.0, 1.0, 4.0]), 3).tolist()
    [0.0, 2.0, 4.0]
    """
    value_N = np.sort(np.asarray(value_N, np.float64).ravel())
    if k < 1 or not len(value_N):
        raise CompressError(f"{k} centroids for {len(value_N)} weights: both must be at least 1")
    if start == "linear":
        return np.linspace(value_N[0], value_N[-1], k)
    if start == "density":
        return np.asarray(np.quantile(value_N, (np.arange(k) + 0.5) / k))
    if start == "random":
        distinct = np.unique(value_N)
        drawn = np.random.default_rng(seed).choice(distinct, min(k, len(distinct)), replace=False)
        return np.sort(drawn)
    raise CompressError(f"start={start!r} is not known; choose linear, density or random")


def kmeans(
    value_N: NDArray[np.floating],
    k: int,
    *,
    start: Start = "linear",
    importance_N: NDArray[np.floating] | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
) -> NDArray[np.float32]:
    """At most ``k`` centroids, ascending; a centroid that loses all its weights is left out.

    ``importance_N`` weighs the squares: with the diagonal of the Fisher information, errors count as for the loss.

    >>> kmeans(np.array([1.0, 1.2, 5.0, 5.4]), 2).tolist()
    [1.100000023841858, 5.199999809265137]
    """
    value_N = np.asarray(value_N, np.float64).ravel()
    center_K = start_at(value_N, k, start=start, seed=seed)
    order_N = np.argsort(value_N, kind="stable")
    value_N = value_N[order_N]
    weight_N = np.ones_like(value_N) if importance_N is None else _positive(importance_N)[order_N]
    mass = np.concatenate([[0.0], np.cumsum(weight_N)])
    moment = np.concatenate([[0.0], np.cumsum(weight_N * value_N)])
    before = np.empty(0, np.int64)
    for _ in range(rounds):
        edge = np.searchsorted(value_N, (center_K[1:] + center_K[:-1]) / 2)
        bound = np.concatenate([[0], edge, [len(value_N)]])
        if np.array_equal(bound, before):
            break
        before = bound
        held_K = np.diff(mass[bound])
        center_K = (np.diff(moment[bound]) / np.where(held_K > 0, held_K, 1.0))[np.diff(bound) > 0]
    return np.unique(center_K.astype(np.float32))


def _positive(importance_N: NDArray[np.floating]) -> Floats:
    """Importances, none of them zero: a mean over nothing but zeros would be none."""
    flat_N = np.asarray(importance_N, np.float64).ravel()
    if (flat_N < 0).any() or not np.isfinite(flat_N).all():
        raise CompressError("importances must be finite and at least 0")
    most = flat_N.max(initial=0.0)
    return flat_N + (1e-6 * most if most > 0 else 1.0)


def nearest(value_N: NDArray[np.floating], center_K: NDArray[np.floating]) -> NDArray[np.int64]:
    """The index of the nearest of ascending centroids, for every value."""
    center_K = np.asarray(center_K, np.float64)
    found: NDArray[np.int64] = np.searchsorted((center_K[1:] + center_K[:-1]) / 2, np.asarray(value_N, np.float64))
    return found


def distortion(value_N: NDArray[np.floating], center_K: NDArray[np.floating]) -> float:
    """Σ (w − c)², every weight at its nearest centroid."""
    value_N = np.asarray(value_N, np.float64).ravel()
    return float(((value_N - np.asarray(center_K, np.float64)[nearest(value_N, center_K)]) ** 2).sum())
