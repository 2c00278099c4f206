"""The learning rate of a run: how it rises, falls, and who decides."""

from __future__ import annotations

from math import cos, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.rate import ADAMW_LR, FIRST, Rate, lr_of, rate_of

shares = st.floats(0, 1)


@given(shares)
def test_without_a_rise_it_only_falls(passed: float) -> None:
    assert Rate("cosine").factor(passed) == 0.5 * (1 + cos(pi * passed))
    assert Rate("constant").factor(passed) == 1.0


@given(shares, shares, st.floats(0.01, 0.99))
def test_it_rises_to_the_whole_and_meets_the_fall_without_a_jump(one: float, other: float, rise: float) -> None:
    early, late = sorted((one * rise, other * rise))
    rising = Rate("constant", rise)
    assert FIRST <= rising.factor(early) <= rising.factor(late) <= 1.0
    assert rising.factor(0.0) == FIRST
    assert rising.factor(rise * (1 - 1e-9)) == pytest.approx(rising.factor(rise)) == 1.0


@given(st.floats(0.05, 1))
def test_afterwards_the_rise_is_forgotten(passed: float) -> None:
    assert Rate("cosine", 0.05).factor(passed) == Rate("cosine").factor(passed)


def test_a_recipe_has_a_rise_of_its_own_unless_told() -> None:
    bits = RunConfig(recipe="one-bit")
    assert rate_of(bits) == Rate("cosine", 0.05)
    assert rate_of(bits.but(rise=0.0, rate="constant")) == Rate("constant", 0.0)
    assert rate_of(RunConfig(rise=0.2)).rise == 0.2
    assert rate_of(RunConfig()).rise == rate_of(RunConfig(recipe="dgc")).rise == 0.0


def test_the_recipes_rise_belongs_to_its_sgd() -> None:
    other = RunConfig(recipe="one-bit", optimizer="adamw")
    assert rate_of(other).rise == 0.0 and rate_of(other.but(rise=0.1)).rise == 0.1


@pytest.mark.parametrize("rise", [-0.1, 1.0, float("nan")])
def test_a_rise_is_a_share_of_the_run(rise: float) -> None:
    with pytest.raises(ConfigError, match="rise="):
        RunConfig(rise=rise)


def test_a_network_takes_as_much_of_the_recipes_rate_as_it_bears() -> None:
    cnn, lenet = (RunConfig(recipe="one-bit", model=model) for model in ("cnn", "lenet-5"))
    assert lr_of(lenet) == pytest.approx(0.2 * lr_of(cnn)) and lr_of(cnn.but(model="your:own")) == lr_of(cnn)
    assert lr_of(lenet.but(lr=0.7)) == 0.7 and lr_of(lenet.but(optimizer="adamw")) == ADAMW_LR
