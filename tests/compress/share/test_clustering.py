"""Clusterings in one dimension: Lloyd's, the exact one, and the one that counts bits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError
from tightwire.compress.share import entropy_constrained, kmeans, optimal, start_at
from tightwire.compress.share.kmeans import distortion, nearest
from tightwire.compress.share.rate import entropy_bits

values = st.lists(st.integers(-60, 60).map(lambda n: n / 8), min_size=1, max_size=9)


def least_squares(value_N: NDArray[np.float64], k: int) -> float:
    """Over all ways to cut the sorted values into at most k intervals."""
    value_N = np.sort(value_N)
    best = np.inf
    for parts in range(1, min(k, len(value_N)) + 1):
        for cuts in combinations(range(1, len(value_N)), parts - 1):
            pieces = np.split(value_N, cuts)
            best = min(best, sum(float(((piece - piece.mean()) ** 2).sum()) for piece in pieces))
    return best


@given(values, st.integers(1, 5))
def test_the_exact_clustering_is_the_best_of_all(some: list[float], k: int) -> None:
    value_N = np.array(some)
    found = distortion(value_N, optimal(value_N, k))
    assert found == pytest.approx(least_squares(value_N, k), abs=1e-5)


@given(values, st.integers(1, 5), st.sampled_from(["linear", "density", "random"]))
def test_lloyd_ends_where_every_centroid_is_the_mean_of_its_own(some: list[float], k: int, start: str) -> None:
    value_N = np.array(some)
    center_K = kmeans(value_N, k, start=start)  # type: ignore[arg-type]
    assert 1 <= len(center_K) <= k and (np.diff(center_K) > 0).all()
    near = nearest(value_N, center_K)
    assert set(near) == set(range(len(center_K)))
    assert center_K == pytest.approx([value_N[near == at].mean() for at in range(len(center_K))], abs=0.26)
    assert distortion(value_N, center_K) >= least_squares(value_N, k) - 1e-5


def test_importances_pull_centroids() -> None:
    value_N, matters_N = np.array([0.0, 1.0, 10.0]), np.array([1.0, 3.0, 1.0])
    assert kmeans(value_N, 2, importance_N=matters_N).tolist() == pytest.approx([0.75, 10], abs=1e-3)
    assert optimal(value_N, 2, importance_N=matters_N).tolist() == pytest.approx([0.75, 10])
    assert optimal(np.array([0.0, 1.0, 2.0]), 2, importance_N=np.array([9.0, 1.0, 1.0])).tolist() == [0, 1.5]


def test_a_large_layer_is_clustered_no_worse_than_by_lloyd() -> None:
    value_N = np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    exact = distortion(value_N, optimal(value_N, 16))
    for start in ("linear", "density", "random"):
        assert exact <= distortion(value_N, kmeans(value_N, 16, start=start)) * (1 + 1e-9)  # type: ignore[arg-type]
    assert exact / len(value_N) == pytest.approx(0.009497, rel=0.05)  # Lloyd-Max for a Gaussian at 16 levels (Max 1960)


def test_linear_starts_keep_the_few_large_weights() -> None:
    value_N = np.append(np.random.default_rng(0).standard_normal(5000) * 0.05, [1.0, -1.0])
    linear, density = (kmeans(value_N, 8, start=start, rounds=1) for start in ("linear", "density"))  # type: ignore[arg-type]
    assert linear.max() == pytest.approx(1) and linear.min() == pytest.approx(-1)
    assert density.max() < 0.2
    assert (
        start_at(value_N, 8, start="random", seed=1).tolist() == start_at(value_N, 8, start="random", seed=1).tolist()
    )


def cost(
    value_N: NDArray[np.float64], code_N: NDArray[np.int64], center_K: NDArray[np.float32], zeros: int
) -> tuple[float, float]:
    """Squares, and bits of all positions."""
    level = np.append(0.0, center_K)
    whole = np.append(code_N, np.zeros(zeros, np.int64))
    return float(((value_N - level[code_N]) ** 2).sum()), len(whole) * entropy_bits(whole)


def test_a_dearer_bit_gives_fewer_bits_and_more_squares() -> None:
    value_N = np.random.default_rng(1).laplace(size=4000)
    found = []
    for bit_cost in (0.0, 0.003, 0.03, 0.3):
        code_N, center_K = entropy_constrained(value_N, 32, bit_cost=bit_cost, zeros=40_000)
        assert (np.diff(center_K) > 0).all() and code_N.max() == len(center_K) <= 32
        found.append(cost(value_N, code_N, center_K, 40_000))
    squares, bits = zip(*found, strict=True)
    assert list(squares) == sorted(squares) and list(bits) == sorted(bits, reverse=True)


def test_at_equal_bits_it_is_nearer_than_kmeans() -> None:
    value_N = np.random.default_rng(2).laplace(size=5000)
    value_N = value_N[np.abs(value_N) > 0.5]
    center_K = kmeans(value_N, 8)
    by_squares, bits = cost(value_N, nearest(value_N, center_K) + 1, center_K, 0)
    low, high = 0.0, 0.2
    for _ in range(20):
        middle = (low + high) / 2
        code_N, center = entropy_constrained(value_N, 64, bit_cost=middle)
        low, high = (middle, high) if cost(value_N, code_N, center, 0)[1] > bits else (low, middle)
    code_N, center = entropy_constrained(value_N, 64, bit_cost=high)
    squares, fewer = cost(value_N, code_N, center, 0)
    assert fewer <= bits and squares < 0.9 * by_squares


@given(values, st.floats(0, 3), st.integers(0, 50))
def test_every_code_is_the_cheapest_for_its_weight(some: list[float], bit_cost: float, zeros: int) -> None:
    value_N = np.array([value for value in some if value] or [1.0])
    code_N, center_K = entropy_constrained(value_N, 4, bit_cost=bit_cost, zeros=zeros, rounds=100)
    level = np.append(0.0, center_K)
    assert len(code_N) == len(value_N) and set(code_N) - {0} == set(range(1, len(center_K) + 1))
    if bit_cost == 0:
        assert (np.abs(value_N - level[code_N]) <= np.abs(value_N[:, None] - level).min(1) + 1e-6).all()
    order = np.argsort(value_N, kind="stable")
    assert (np.diff(level[code_N[order]]) >= 0).all()


def test_nothing_to_cluster_is_refused() -> None:
    for cluster in (kmeans, optimal):
        with pytest.raises(CompressError, match="at least 1"):
            cluster(np.array([]), 3)
        with pytest.raises(CompressError, match="at least 1"):
            cluster(np.array([1.0]), 0)
