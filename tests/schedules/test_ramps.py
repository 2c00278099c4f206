"""Numbers that change during the run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.knob import value_at
from tightwire.algebra.world import At
from tightwire.schedules.ramps import staircase

DGC_WARM_UP = (0.25, 0.0625, 0.015625, 0.004, 0.001)


def test_the_warm_up_of_dgc_has_a_level_an_epoch_and_then_stays() -> None:
    ramp = staircase(*DGC_WARM_UP)
    assert [ramp(At(epochs=epoch)) for epoch in range(8)] == [*DGC_WARM_UP, 0.001, 0.001, 0.001]


@given(st.integers(0, 10**6), st.integers(0, 100))
def test_a_level_holds_for_its_stretch(step: int, epoch: int) -> None:
    at = At(step=step, epochs=epoch)
    assert staircase(1.0, 0.5, 0.25, every=10, unit="step")(at) == [1.0, 0.5, 0.25][min(step // 10, 2)]
    assert staircase(1.0, 0.5, 0.25, every=3)(at) == [1.0, 0.5, 0.25][min(epoch // 3, 2)]


@pytest.mark.parametrize("at", [At(), At(step=10**9, epochs=10**6)])
def test_one_level_is_a_constant(at: At) -> None:
    assert value_at(staircase(0.3), at) == value_at(0.3, at) == 0.3


def test_ramps_with_the_same_levels_are_equal() -> None:
    assert staircase(1.0, 0.5) == staircase(1.0, 0.5)
    assert staircase(1.0, 0.5) != staircase(1.0, 0.5, unit="step")
    assert hash(staircase(1.0, 0.5)) == hash(staircase(1.0, 0.5))
