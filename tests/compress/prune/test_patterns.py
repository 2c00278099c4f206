"""Patterns: groups are pruned whole, at any shape, and 2 of 4 is 2 of 4."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tightwire.compress.errors import CompressError
from tightwire.compress.plan import parse_pattern
from tightwire.compress.prune import Pattern, block, by_density, filters, fine, kernels, n_of_m, vectors

SHAPES = [(7, 10), (6, 5, 3, 3), (4, 1, 5, 5), (8, 3, 3)]


def groups(pattern: str, weight: Tensor) -> list[tuple[slice, ...]]:
    """The blocks of a weight, written down by hand."""
    sides = {
        "fine": [1] * weight.ndim,
        "vector": [1] * (weight.ndim - 1) + [min(4, weight.shape[-1])],
        "kernel": [1, 1, *weight.shape[2:]],
        "filter": [1, *weight.shape[1:]],
        "block": [1] * (weight.ndim - 2) + [2, 3],
    }[pattern]
    found: list[tuple[slice, ...]] = [()]
    for length, side in zip(weight.shape, sides, strict=True):
        found = [(*g, slice(a, min(a + side, length))) for g in found for a in range(0, length, side)]
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("name", "pattern"),
    [("fine", fine()), ("vector", vectors(4)), ("kernel", kernels()), ("filter", filters()), ("block", block(2, 3))],
)
def test_groups_go_together_and_the_weakest_first(name: str, pattern: Pattern, shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape)
    mask = by_density({"w": weight}, 0.5, pattern=pattern)["w"]
    means = {True: [], False: []}  # type: ignore[var-annotated]
    for group in groups(name, weight):
        kept = mask[group]
        assert kept.all() or not kept.any()
        means[bool(kept.all())].append((float(weight[group].abs().mean()), kept.numel()))
    assert mask.float().mean() <= 0.5
    assert mask.sum() > 0.5 * mask.numel() - max(size for some in means.values() for _, size in some)
    assert min(mean for mean, _ in means[True]) >= max(mean for mean, _ in means[False])


@given(st.integers(1, 5), st.integers(1, 23), st.integers(1, 5), st.integers(0, 3))
def test_n_of_m_never_keeps_more(rows: int, columns: int, m: int, seed: int) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    n = (m + 1) // 2
    mask = by_density({"w": weight}, 1.0, pattern=n_of_m(n, m))["w"]
    for row, kept in zip(weight.abs(), mask, strict=True):
        for first in range(0, columns, m):
            some, chosen = row[first : first + m], kept[first : first + m]
            assert int(chosen.sum()) == min(n, len(some))
            assert some[chosen].min() >= (some[~chosen].max() if (~chosen).any() else 0)


def test_two_of_four_of_a_convolution_is_counted_over_its_inputs() -> None:
    weight = torch.randn(3, 4, 3, 3)
    mask = by_density({"w": weight}, 1.0, pattern=n_of_m())["w"]
    assert (mask.reshape(3, 9, 4).sum(-1) == 2).all()


def test_a_lower_density_keeps_the_largest_of_the_two_of_four() -> None:
    weight = torch.randn(16, 32)
    allowed = by_density({"w": weight}, 1.0, pattern=n_of_m())["w"]
    mask = by_density({"w": weight}, 0.25, pattern=n_of_m())["w"]
    assert int(mask.sum()) == 128 and not (mask & ~allowed).any()
    assert weight[mask].abs().min() >= weight[allowed & ~mask].abs().max()


@pytest.mark.parametrize("text", ["fine", "vector:8", "kernel", "filter", "block:2x2", "2:4", "1:4"])
def test_patterns_have_names(text: str) -> None:
    mask = by_density({"w": torch.randn(8, 8)}, 0.5, pattern=parse_pattern(text))["w"]
    assert 0 < int(mask.sum()) <= 32


@pytest.mark.parametrize("text", ["fines", "vector:x", "block", "block:-1x2", "5:4", "kernel:3", ""])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(CompressError):
        parse_pattern(text)
