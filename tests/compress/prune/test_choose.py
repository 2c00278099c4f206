"""How many weights are kept, of which layers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.compress.errors import CompressError
from tightwire.compress.prune import by_density, by_quality, density_of, globally, layer_adaptive


def layers() -> dict[str, torch.Tensor]:
    return {"small": 0.01 * torch.randn(40, 10), "large": torch.randn(20, 30)}


@given(st.floats(0, 1), st.integers(0, 5))
def test_a_density_is_met_to_the_weight(density: float, seed: int) -> None:
    weight = torch.randn(13, 17, generator=torch.Generator().manual_seed(seed))
    mask = by_density({"w": weight}, density)["w"]
    assert int(mask.sum()) == round(density * 13 * 17)


def test_layers_may_have_densities_of_their_own() -> None:
    masks = by_density(layers(), {"small": 0.5, "large": 0.1})
    assert [int(mask.sum()) for mask in masks.values()] == [200, 60]
    with pytest.raises(CompressError, match="no value is given for large"):
        by_density(layers(), {"small": 0.5})


def test_quality_is_a_threshold_in_deviations() -> None:
    weights = layers()
    for name, mask in by_quality(weights, {"small": 1.0, "large": 0.5}).items():
        q = {"small": 1.0, "large": 0.5}[name]
        assert torch.equal(mask, weights[name].abs() > q * weights[name].std(correction=0))


def test_quality_counts_survivors_only() -> None:
    weight = torch.tensor([[1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    assert by_quality({"w": weight}, 0.9)["w"].sum() == 2  # the deviation of the two is 1, of all eight 0.5
    assert by_quality({"w": weight}, 1.1)["w"].sum() == 0


def test_one_threshold_takes_from_small_layers_an_adaptive_one_from_all() -> None:
    masks = globally(layers(), 0.5)
    assert density_of(masks) == 0.5 and int(masks["small"].sum()) == 0
    fair = layer_adaptive(layers(), 0.5)
    assert density_of(fair) == 0.5 and int(fair["small"].sum()) > 100


def test_adaptive_scores_are_those_of_the_paper() -> None:
    weight = torch.tensor([3.0, -2.0, 1.0])
    other = torch.tensor([10.0, 10.0, 1.0, 1.0])
    # scores 9/9, 4/13, 1/14 and 1, 100/200, 1/201, 1/202 (ties in order): the four best are 1, 1, 1/2, 4/13
    masks = layer_adaptive({"a": weight, "b": other}, 4 / 7)
    assert masks["a"].tolist() == [True, True, False] and masks["b"].tolist() == [True, True, False, False]


def test_what_is_pruned_never_comes_back() -> None:
    weight = torch.randn(50, 20)
    weight = weight * by_density({"w": weight}, 0.3)["w"]
    for again in (by_density({"w": weight}, 0.8), globally({"w": weight}, 0.8), layer_adaptive({"w": weight}, 0.8)):
        assert torch.equal(again["w"], weight != 0)


def test_densities_that_are_none_are_refused() -> None:
    with pytest.raises(CompressError, match=r"density 1\.5"):
        by_density(layers(), 1.5)
