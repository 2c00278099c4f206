"""A policy made to take the time it may: never more where something fits, nearly all of it where it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.compress.search.toys import toy
from tightwire.compress.search.fit import AIMED, NEAR, Timed, fit, nearest
from tightwire.compress.search.problem import Problem, Tried

Clock = Callable[[Sequence[int]], float]


def in_blocks(problem: Problem, block: float, beside: float) -> Clock:
    """Time that grows in blocks of cost, and what no pruning takes away."""

    def time_of(levels: Sequence[int]) -> float:
        cost = float(problem.cost.total(np.array([levels], np.intp))[0])
        return float(beside + np.ceil(cost / block) * block)

    return time_of


def started(problem: Problem, time_of: Clock, share: float) -> Timed:
    level = [round(share * (len(unit.choices) - 1)) for unit in problem.units]
    (tried,) = problem.evaluate(np.array([level], np.intp))
    return tried, time_of(tried.levels)


@example(seed=49, share=0.0, part=0.3, beside=0.0, block=30.0)
@example(seed=44, share=1.0, part=0.3, beside=5.807, block=22.704)  # what fits is reached from below only
@example(seed=30, share=0.81, part=0.3, beside=11.77, block=11.2)
@given(
    seed=st.integers(0, 50), share=st.floats(0, 1), part=st.floats(0.3, 0.9), beside=st.floats(0, 100),
    block=st.floats(1, 30),
)  # fmt: skip
def test_nearly_all_of_the_time_is_used_and_never_more(
    seed: int, share: float, part: float, beside: float, block: float
) -> None:
    problem, _ = toy(seed)
    times: list[float] = []
    clock = in_blocks(problem, block, beside)

    def time_of(levels: Sequence[int]) -> float:
        times.append(clock(levels))
        return times[-1]

    budget = beside + part * problem.cost.most
    found, took = fit(problem, started(problem, clock, share), time_of, budget)
    assert took <= budget and took == clock(found.levels) and len(times) < 24
    between = took + block <= budget  # if a block is large, nothing lies between
    assert took >= NEAR * budget or not between or len(times) == 23


def test_of_the_ways_to_use_more_time_the_best_is_taken() -> None:
    problem, _ = toy(3)
    time_of = in_blocks(problem, 1.0, 0.0)
    start = started(problem, time_of, 0.5)
    found, _ = fit(problem, start, time_of, 1.1 * start[1])
    assert found.reward > start[0].reward
    unlike = [t for t, (a, b) in enumerate(zip(found.levels, start[0].levels, strict=True)) if a != b]
    harms = problem.scorer.harms  # type: ignore[attr-defined]
    assert unlike == [max(range(6), key=lambda t: harms[t][10] - harms[t][_reach(problem, start[0], t)])]


def _reach(problem: Problem, start: Tried, t: int) -> int:
    cost_C = problem.cost.around(np.array([start.levels]), t)[0]
    return int(np.argmin(np.abs(cost_C - AIMED * 1.1 * start.cost)))


def test_what_fits_is_left_alone_and_where_nothing_fits_the_fastest_is_taken() -> None:
    problem, _ = toy(0)
    time_of = in_blocks(problem, 1.0, 0.0)
    start = started(problem, time_of, 0.5)

    def never(levels: Sequence[int]) -> float:
        raise AssertionError(f"{levels} timed for nothing")

    assert fit(problem, start, never, start[1] / 0.95) == start
    slow, took = fit(problem, (start[0], 1e6 + start[1]), lambda levels: 1e6 + time_of(levels), 1000.0)
    assert took > 1000.0 and slow.cost <= start[0].cost
    assert nearest([(start[0], 5.0), (slow, 4.0), (slow, 7.0)], 6.0) == (start[0], 5.0)
    assert nearest([(start[0], 5.0), (slow, 4.0)], 3.0) == (slow, 4.0)


def test_a_network_that_is_whole_and_still_fast_enough_stays_whole() -> None:
    problem, _ = toy(1)
    time_of = in_blocks(problem, 1.0, 0.0)
    whole = started(problem, time_of, 1.0)
    assert fit(problem, whole, time_of, 10 * whole[1]) == whole


def test_where_a_small_change_gains_nothing_a_larger_one_is_tried() -> None:
    problem, _ = toy(4)
    start = started(problem, in_blocks(problem, 1.0, 0.0), 0.5)
    block = start[0].cost / 11.95  # a little less costs as much
    time_of = in_blocks(problem, block, 0.0)
    budget = 0.99 * time_of(start[0].levels)
    _, took = fit(problem, (start[0], time_of(start[0].levels)), time_of, budget)
    assert took <= budget


@pytest.mark.parametrize("jump", [0.5, 2.0])
def test_noise_that_leads_astray_ends(jump: float) -> None:
    problem, _ = toy(2)
    clock, count = in_blocks(problem, 1.0, 0.0), iter(range(10_000))

    def noisy(levels: Sequence[int]) -> float:
        return clock(levels) * (jump if next(count) % 2 else 1.0)

    budget = 0.5 * problem.cost.most
    _, took = fit(problem, started(problem, noisy, 0.9), noisy, budget)
    assert took <= budget
