"""Which policy is taken: the best where errors are exact, else one that is as good by all that can be known."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.compress.search.toys import toy
from tightwire.compress.search.problem import Problem, Tried, best
from tightwire.compress.search.rules import uniform_levels
from tightwire.compress.search.settle import settle


def some(problem: Problem, seed: int, count: int = 60) -> list[Tried]:
    asked = np.random.default_rng(seed).integers(0, 21, (count, len(problem.units)))
    return problem.evaluate(problem.clip.walk(asked))


def uniform(problem: Problem) -> Tried:
    return problem.evaluate(uniform_levels(problem)[None])[0]


def off(problem: Problem, one: Tried) -> float:
    mine, even = (problem.choices(levels) for levels in (one.levels, uniform(problem).levels))
    return sum(log(a.ratio / b.ratio) ** 2 for a, b in zip(mine, even, strict=True))


@given(seed=st.integers(0, 30), samples=st.integers(50, 100_000))
def test_it_is_as_good_as_the_best_by_one_standard_error_and_nearer_to_uniform(seed: int, samples: int) -> None:
    problem, _ = toy(seed)
    problem = replace(problem, samples=samples)
    tried = some(problem, seed)
    top, taken = best(tried), settle(problem, tried)
    within = top.error + max(sqrt(top.error * (1 - top.error) / samples), 1 / samples)
    assert taken.error <= within + 1e-8 and off(problem, taken) <= off(problem, top)
    assert all(off(problem, one) >= off(problem, taken) for one in tried if one.error < within - 1e-12)


def test_where_errors_are_exact_the_best_is_taken() -> None:
    problem, _ = toy(0)
    tried = [uniform(problem), *some(problem, 0)]
    assert settle(problem, tried) == best(tried)


def test_none_wrong_of_a_few_samples_does_not_lead_away_from_uniform() -> None:
    problem, _ = toy(0)
    perfect = replace(some(problem, 0)[0], error=0.0, reward=0.0)
    once, twice = (replace(uniform(problem), error=wrong / 300, reward=-wrong / 300) for wrong in (1, 2))
    assert settle(replace(problem, samples=300), [perfect, once]) == once
    assert settle(replace(problem, samples=300), [perfect, twice]) == perfect


def test_what_chance_could_have_done_does_not_lead_away_from_uniform() -> None:
    problem, _ = toy(5)
    even = uniform(problem)
    lucky = replace(some(problem, 1)[0], error=even.error - 0.003, reward=-(even.error - 0.003))
    assert settle(replace(problem, samples=1000), [even, lucky]) == even
    assert settle(replace(problem, samples=1_000_000), [even, lucky]) == lucky


def test_it_is_the_best_policy_that_needs_no_search_that_chance_does_not_lead_away_from() -> None:
    problem, _ = toy(5)
    good = min(some(problem, 3), key=lambda one: one.error)
    assert good.error < uniform(problem).error
    home = replace(problem, samples=1000, ruled=(good.levels,))
    near, far = (replace(one, error=good.error, reward=good.reward) for one in (good, uniform(problem)))
    assert settle(home, [far, near]) == near and settle(replace(home, ruled=()), [near, far]) == far


@given(seed=st.integers(0, 30), samples=st.integers(1, 1000))
def test_rewards_that_weigh_a_price_take_the_best(seed: int, samples: int) -> None:
    problem, _ = toy(seed)
    dear = replace(problem, price=problem.cost, samples=samples, known={})
    tried = some(dear, seed)
    assert settle(dear, tried) == best(tried)


def test_where_none_is_wrong_the_cheaper_network_has_the_higher_reward() -> None:
    problem, _ = toy(0)
    known = {one.levels: 0.0 for one in some(problem, 0)}
    dear = replace(problem, price=problem.cost, samples=300, known=known)
    tried = some(dear, 0)
    assert max(tried, key=lambda one: one.reward).cost == min(one.cost for one in tried)
    assert len({one.reward for one in tried}) == len({one.cost for one in tried}) > 1
