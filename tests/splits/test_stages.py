"""Models cut between their layers: as evenly as any cut could be, and never where it cannot be."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tightwire.algebra.errors import JoinError
from tightwire.splits.stages import balanced_cuts, stage_of


def largest(sizes: list[int], cuts: tuple[int, ...]) -> int:
    return max(sum(sizes[lo:hi]) for lo, hi in pairwise([0, *cuts, len(sizes)]))


@st.composite
def divided(draw: st.DrawFn) -> tuple[list[int], int]:
    sizes = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 10, 50]), min_size=1, max_size=9))
    return sizes, draw(st.integers(1, len(sizes)))


@given(divided())
def test_no_other_cuts_have_a_smaller_largest_stage(case: tuple[list[int], int]) -> None:
    sizes, stages = case
    cuts = balanced_cuts(sizes, stages)
    assert len(cuts) == stages - 1
    assert all(lo < hi for lo, hi in pairwise([0, *cuts, len(sizes)]))
    best = min(largest(sizes, other) for other in combinations(range(1, len(sizes)), stages - 1))
    assert largest(sizes, cuts) == best


@given(divided())
def test_layers_without_weights_stay_with_those_before_them(case: tuple[list[int], int]) -> None:
    sizes, stages = case
    if sum(map(bool, sizes)) >= stages:
        assert all(sizes[cut] > 0 for cut in balanced_cuts(sizes, stages))


def net(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers)


def test_stages_are_the_very_layers_of_the_model_in_order() -> None:
    model = net(4, 8, 8, 2)
    stages = [stage_of(model, 3, stage, None) for stage in range(3)]
    assert [layer for stage in stages for layer in stage] == list(model)
    assert [[type(layer) for layer in stage] for stage in stages] == [[nn.Linear, nn.Tanh]] * 3


def test_given_cuts_are_kept() -> None:
    model = net(4, 4, 4, 4)
    assert [len(stage_of(model, 3, stage, (1, 5))) for stage in range(3)] == [1, 4, 1]


def test_one_stage_is_the_whole_model() -> None:
    model = net(4, 4)
    assert list(stage_of(model, 1, 0, None)) == list(stage_of(model, 1, 0, ())) == list(model)


def test_a_heavy_layer_has_a_stage_of_its_own() -> None:
    model = net(4, 4, 100, 4)
    assert [len(stage_of(model, 2, stage, None)) for stage in range(2)] == [4, 2]


def test_a_model_that_is_no_sequence_is_refused() -> None:
    with pytest.raises(JoinError, match=r"cuts nn\.Sequential.*Linear is not one: write it as nn\.Sequential"):
        stage_of(nn.Linear(2, 2), 2, 0, None)


def test_more_stages_than_layers_are_refused() -> None:
    with pytest.raises(JoinError, match="2 layers cannot make 3 stages; use at most 2 workers"):
        stage_of(net(2, 2), 3, 0, None)


@pytest.mark.parametrize("cuts", [(0,), (4,), (9,), (-1,)])
def test_cuts_that_leave_a_stage_empty_are_refused(cuts: tuple[int, ...]) -> None:
    with pytest.raises(JoinError, match="of 4 layers leave a stage empty; cuts must grow and lie inside"):
        stage_of(net(2, 2, 2), 2, 0, cuts)


def test_cuts_that_do_not_grow_are_refused() -> None:
    with pytest.raises(JoinError, match=r"cuts=\(2, 2\)"):
        stage_of(net(2, 2, 2), 3, 0, (2, 2))


def test_layers_that_share_a_weight_are_refused_wherever_the_cut_is() -> None:
    first, last = nn.Linear(3, 3), nn.Linear(3, 3)
    last.weight = first.weight
    with pytest.raises(JoinError, match=r"layers 0 and 2 share a weight; .*untie them"):
        stage_of(nn.Sequential(first, nn.Tanh(), last), 2, 0, None)


def test_a_layer_may_share_a_weight_with_itself() -> None:
    inner = nn.Linear(3, 3)
    model = nn.Sequential(nn.Sequential(inner, inner), nn.Linear(3, 1))
    assert [len(stage_of(model, 2, stage, None)) for stage in range(2)] == [1, 1]
