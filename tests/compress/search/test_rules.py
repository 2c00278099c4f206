"""Policies that need no search: within the budget, what they say they are, and where a search begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.compress.search.toys import examples, network, toy
from tightwire.compress.errors import CompressError
from tightwire.compress.prune.choose import relative
from tightwire.compress.search import rivals
from tightwire.compress.search.amc import Search
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import BITS, Built, Prune, Wish, build
from tightwire.compress.search.ddpg import PAPER, Settings
from tightwire.compress.search.problem import Tried, best
from tightwire.compress.search.rules import by_thresholds, home, uniform_levels


def quiet(number: int, tried: Tried) -> None:
    pass


def built(budget: str, prune: Prune = "weights", name: str = "lenet") -> Built:
    held = examples()
    return build(network(name), held, held, Wish(parse_budget(budget), prune))


@given(st.floats(0.06, 1.0))
def test_one_threshold_parts_what_is_kept_from_what_goes(share: float) -> None:
    made = built(f"params={share:.3f}")
    problem, state = made.problem, made.scorer.model.state_dict()
    assert len(problem.ruled) in (1, 2)  # by magnitude and by LAMP, unless they are the same
    for score, levels in zip((torch.abs, relative), problem.ruled, strict=False):
        low, high = 0.0, float("inf")  # thresholds that give each layer the choice that it has
        for unit, level in zip(problem.units, levels, strict=True):
            scores = score(state[unit.name]).flatten().sort(descending=True).values.double()
            count = len(scores)
            kept = int(np.ceil(unit.choices[level].ratio * count - 1e-6))
            if level > 0:
                high = min(high, float(scores[kept - 1]))
            if level + 1 < len(unit.choices):
                low = max(low, float(scores[min(count - 1, int(unit.choices[level + 1].ratio * count + 1e-6))]))
        assert low <= high * (1 + 1e-5)


@settings(max_examples=20)  # each codes every choice of every layer
@given(st.floats(0.1, 1.0), st.sampled_from([("params", "weights"), ("bytes", "weights"), ("bytes", "joint")]))
def test_they_are_within_the_budget_and_use_it(share: float, what: tuple[str, Prune]) -> None:
    kind, prune = what
    problem = built(f"{kind}={0.01 + 0.15 * share if kind == 'bytes' else share:.4f}", prune).problem
    costs = [float(problem.cost.total(np.array([levels]))[0]) for levels in problem.ruled]
    assert all(cost <= problem.clip.target for cost in costs)
    assert not costs or max(costs) > 0.8 * min(problem.clip.target, problem.cost.most / 2)


def test_a_joint_search_has_one_for_each_number_of_bits_and_uniform_is_at_its_finest() -> None:
    problem = built("bytes=0.12", "joint").problem
    chosen = [problem.choices(levels) for levels in problem.ruled]
    assert {choice.pattern for choices in chosen for choice in choices} == {"fine"}
    assert {choice.bits for choices in chosen for choice in choices} == set(BITS)
    assert all(len({choice.bits for choice in choices}) == 1 for choices in chosen)
    even = problem.choices(uniform_levels(problem).tolist())
    assert {(choice.pattern, choice.bits) for choice in even} == {("fine", BITS[-1])}


def test_weights_that_are_gone_are_not_kept() -> None:
    model, held = network("lenet"), examples()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter[parameter.abs() < parameter.abs().median()] = 0
    problem = build(model, held, held, Wish(parse_budget("params=0.9"), "weights")).problem
    state = model.state_dict()
    for levels in by_thresholds(problem, state):
        for unit, choice in zip(problem.units, problem.choices(levels), strict=True):
            assert choice.ratio <= state[unit.name].count_nonzero() / state[unit.name].numel() + 1e-6


@pytest.mark.parametrize(("budget", "prune", "alone"), [
    ("params=0.2", "weights", rivals.threshold), ("flops=0.5", "channels", rivals.curvature),
])  # fmt: skip
def test_a_search_begins_with_them_but_not_the_papers(budget: str, prune: Prune, alone: Any) -> None:
    problem = built(budget, prune).problem
    known = [tuple(uniform_levels(problem).tolist()), *problem.ruled]
    tried = Search(problem, settings=Settings(hidden=16, warmup=5), seed=0).run(len(known) + 2)
    assert [one.levels for one in tried[: len(known)]] == known
    assert Search(problem, settings=PAPER, seed=0).run(1)[0].levels != known[0]
    assert {one.levels for one in rivals.evolution(problem, 20, told=quiet)} >= set(known)
    assert [one.levels for one in alone(problem, 400, told=quiet)] == list(problem.ruled)
    assert len(alone(problem, 1, told=quiet)) == 1


@pytest.mark.parametrize(("budget", "prune"), [("params=0.2", "weights"), ("flops=0.5", "channels")])
def test_home_is_the_best_of_them(budget: str, prune: Prune) -> None:
    problem = built(budget, prune).problem
    measured = problem.evaluate(np.array([uniform_levels(problem), *problem.ruled]))
    assert home(problem) == best(measured).levels
    toy_problem, _ = toy(0)
    assert home(toy_problem) == tuple(uniform_levels(toy_problem).tolist()) and not toy_problem.known


def test_rules_for_what_is_not_pruned_are_refused() -> None:
    with pytest.raises(CompressError, match="use --prune weights"):
        rivals.threshold(built("flops=0.5", "channels").problem, 400, told=quiet)
    with pytest.raises(CompressError, match="use --prune channels"):
        rivals.curvature(built("params=0.2").problem, 400, told=quiet)


def test_a_layer_that_is_large_and_idle_is_pruned_by_one_threshold() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 64), nn.ReLU(), nn.Linear(64, 5)).eval()
    with torch.no_grad():
        model[1].weight.mul_(0.01)  # type: ignore[operator, union-attr]
    held = examples()
    problem = build(model, held, held, Wish(parse_budget("params=0.3"), "weights")).problem
    first, last = problem.choices(problem.ruled[0])
    assert last.ratio > 0.9 and first.ratio < 0.35
