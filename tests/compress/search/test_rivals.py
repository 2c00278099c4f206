"""Uniform, sensitivity, evolution, and the exact knapsack below."""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compress.search.toys import Known, examples, network, toy
from tightwire.compress.errors import CompressError
from tightwire.compress.search import knapsack as knapsacks
from tightwire.compress.search import rivals
from tightwire.compress.search.build import Wish, build
from tightwire.compress.search.knapsack import knapsack
from tightwire.compress.search.problem import Tried, best

NUMBERS = st.integers(0, 20).map(float)


def quiet(number: int, tried: Tried) -> None:
    pass


@given(st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4), min_size=1, max_size=4), NUMBERS)
def test_the_knapsack_is_exact(rows: list[list[tuple[float, float]]], room: float) -> None:
    costs = [np.array([cost for cost, _ in row]) for row in rows]
    harms = [np.array([harm for _, harm in row]) for row in rows]
    found = {
        pick: sum(h[c] for h, c in zip(harms, pick, strict=True))
        for pick in product(*(range(len(row)) for row in rows))
        if sum(c[p] for c, p in zip(costs, pick, strict=True)) <= room
    }
    if not found:
        with pytest.raises(CompressError, match="no choice of units fits"):
            knapsack(costs, harms, room)
        return
    chosen = knapsack(costs, harms, room)
    assert sum(h[c] for h, c in zip(harms, chosen, strict=True)) == min(found.values())
    assert sum(c[p] for c, p in zip(costs, chosen, strict=True)) <= room


def test_a_thinned_front_still_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    costs, harms = ([random.random(8) for _ in range(8)] for _ in range(2))
    exact = knapsack(costs, harms, 3.0)
    monkeypatch.setattr(knapsacks, "MOST", 200)
    chosen = knapsack(costs, harms, 3.0)
    harm = [sum(h[c] for h, c in zip(harms, pick, strict=True)) for pick in (exact, chosen)]
    assert sum(c[p] for c, p in zip(costs, chosen, strict=True)) <= 3.0 and harm[0] <= harm[1] <= harm[0] + 0.1


def test_where_harms_add_up_the_scan_finds_the_optimum() -> None:
    for seed in range(3):
        problem, optimum = toy(seed)
        (found,) = rivals.sensitivity(problem, 6 * 21 + 1, told=quiet)
        assert 1 - found.error == pytest.approx(optimum) and found.cost <= problem.clip.target
        (coarse,) = rivals.sensitivity(problem, 30, told=quiet)
        assert 1 - coarse.error > 0.97 * optimum


def test_uniform_uses_what_it_may() -> None:
    problem, _ = toy(0)
    (found,) = rivals.uniform(problem, 10, told=quiet)
    ratios = [choice.ratio for choice in problem.choices(found.levels)]
    assert max(ratios) - min(ratios) < 0.046 and 0.97 * problem.clip.target < found.cost <= problem.clip.target


def test_evolution_takes_exactly_its_evaluations_and_beats_uniform() -> None:
    problem, optimum = toy(1)
    numbers: list[int] = []
    tried = rivals.evolution(problem, 203, told=lambda number, one: numbers.append(number), seed=0)
    assert numbers == list(range(1, 204)) and len(tried) == 203
    assert 1 - best(tried).error > 0.95 * optimum and all(one.cost <= problem.clip.target for one in tried)
    assert tried == rivals.evolution(problem, 203, told=quiet, seed=0)


def test_a_policy_is_measured_once() -> None:
    problem, _ = toy(0)
    scorer = problem.scorer
    assert isinstance(scorer, Known)
    before = scorer.measured
    rows = np.zeros((5, 6), np.intp)
    assert len({one.error for one in problem.evaluate(rows)}) == 1 and scorer.measured == before + 1
    problem.evaluate(rows)
    assert scorer.measured == before + 1


def test_without_a_budget_the_reward_weighs_error_by_cost() -> None:
    model, held = network("lenet"), examples()
    for kind in ("flops", "params"):
        made = build(model, held, held, Wish(reward=kind, prune="weights"))  # type: ignore[arg-type]
        assert made.problem.clip.target == made.problem.cost.most and made.problem.cost.name == kind
        levels = np.array([[40, 30, 20, 50]])
        (tried,) = made.problem.evaluate(levels)
        assert tried.reward == pytest.approx(-tried.error * log(made.costs[kind].total(levels)[0]))


def test_what_costs_less_is_taken_among_equals() -> None:
    same = [Tried((1,), 0.1, cost, -0.1) for cost in (3.0, 2.0, 2.0)]
    assert best([*same, Tried((2,), 0.2, 1.0, -0.2)]) is same[1]
