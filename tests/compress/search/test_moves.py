"""Variations of a policy stay within the budget, and towards uniform means just that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.compress.search.toys import toy
from tightwire.compress.search.moves import Action, homeward, nudge, tilt
from tightwire.compress.search.problem import Problem
from tightwire.compress.search.rules import uniform_levels


def actions_of(problem: Problem, levels: np.ndarray) -> list[Action]:
    return [np.array(unit.action(int(c)), np.float32) for unit, c in zip(problem.units, levels, strict=True)]


def levels_of(problem: Problem, actions: list[Action]) -> np.ndarray:
    asked = [unit.asked([float(a) for a in action]) for unit, action in zip(problem.units, actions, strict=True)]
    return np.array(asked, np.intp)


def somewhere(problem: Problem, seed: int) -> list[Action]:
    asked = np.random.default_rng(seed).integers(0, 21, (1, len(problem.units)))
    return actions_of(problem, problem.clip.walk(asked)[0])


@given(seed=st.integers(0, 50), part=st.floats(0, 1))
def test_a_step_homeward_keeps_the_budget_and_comes_nearer(seed: int, part: float) -> None:
    problem, _ = toy(seed)
    start, even = somewhere(problem, seed), actions_of(problem, uniform_levels(problem))
    found, stayed = (levels_of(problem, homeward(problem, start, even, p)) for p in (part, 0.0))
    assert problem.cost.total(found[None])[0] <= problem.clip.target
    off, before = (np.abs(levels - levels_of(problem, even)).max() for levels in (found, stayed))
    assert off <= (1 - part) * before + 2  # rounding, and all units moved by as much, to use the budget


def test_the_whole_way_home_is_uniform_up_to_rounding() -> None:
    problem, _ = toy(3)
    even = actions_of(problem, uniform_levels(problem))
    found = levels_of(problem, homeward(problem, somewhere(problem, 1), even, 1.0))
    assert np.abs(found - uniform_levels(problem)).max() <= 1


def test_a_nudge_moves_at_most_three_units() -> None:
    problem, _ = toy(4, units=8)
    start = somewhere(problem, 2)
    for seed in range(20):
        moved = nudge(start, 0.3, np.random.default_rng(seed))
        assert 1 <= sum(not np.array_equal(a, b) for a, b in zip(start, moved, strict=True)) <= 3


def test_where_a_price_is_weighed_a_move_does_not_use_up_a_budget_that_nobody_gave() -> None:
    problem, _ = toy(3, share=1.0)
    dear = replace(problem, price=problem.cost)
    start = somewhere(toy(3, share=0.3)[0], 1)
    before = dear.cost.total(levels_of(dear, start)[None])[0]
    for seed in range(20):
        feature_TF = np.random.default_rng(seed).random((len(start), 3))
        plain, priced = (
            levels_of(one, tilt(one, start, feature_TF, 0.1, np.random.default_rng(seed))) for one in (problem, dear)
        )
        assert dear.cost.total(priced[None])[0] < 2 * before < 0.9 * problem.cost.total(plain[None])[0]
