"""What AMC must beat, each given the same problem and the same number of evaluations.

    uniform       every unit keeps the same share: the largest that fits
    threshold     of single weights all that are larger than one threshold, or one of LAMP's scores (`rules`)
    curvature     of channels those of which the least harm is foreseen, with none measured (`rules`)
    sensitivity   each unit alone at several levels (Han et al. 2015, figure 6), then the exact knapsack over the scan
    evolution     the better half of a population, crossed and mutated (compare Real et al., AAAI 2019)

All walk through the same clipping, so none exceeds the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError
from tightwire.compress.search.cost import Floats
from tightwire.compress.search.problem import Problem, Tried, best
from tightwire.compress.search.rules import least_harm, uniform_levels

Told: TypeAlias = Callable[[int, Tried], None]


def uniform(problem: Problem, evaluations: int, *, told: Told, seed: int = 0) -> list[Tried]:
    """The largest share that every unit can keep, other axes at their finest; one evaluation is all it takes."""
    tried = problem.evaluate(uniform_levels(problem)[None])
    told(1, tried[0])
    return tried


def threshold(problem: Problem, evaluations: int, *, told: Told, seed: int = 0) -> list[Tried]:
    """One threshold for all layers, by magnitude or by LAMP: no more evaluations than there are such policies."""
    if _of_channels(problem) or not problem.ruled:
        raise CompressError("one threshold for all layers is for single weights; use --prune weights or another method")
    return _ruled(problem, evaluations, told)


def curvature(problem: Problem, evaluations: int, *, told: Told, seed: int = 0) -> list[Tried]:
    """The least harm that is foreseen from curvature: no more evaluations than there are such policies."""
    if not _of_channels(problem):
        raise CompressError("harm is foreseen of channels that go; use --prune channels or another method")
    return _ruled(problem, evaluations, told)


def _of_channels(problem: Problem) -> bool:
    return problem.units[0].choices[0].pattern == "channels"


def _ruled(problem: Problem, evaluations: int, told: Told) -> list[Tried]:
    tried = problem.evaluate(np.array(problem.ruled, np.intp)[:evaluations])
    for number, one in enumerate(tried):
        told(number + 1, one)
    return tried


def sensitivity(problem: Problem, evaluations: int, *, told: Told, seed: int = 0) -> list[Tried]:
    """Scan each unit alone at as many levels as the evaluations allow, then choose for all at once."""
    whole_T = problem.cost.dearest
    units = len(problem.units)
    levels = max(2, (evaluations - 1) // units)
    scanned, policies = [], []
    for t, unit in enumerate(problem.units):
        some = np.unique(np.linspace(0, len(unit.choices) - 1, min(levels, len(unit.choices))).round().astype(np.intp))
        scanned.append(some)
        for choice in some:
            policy = whole_T.copy()
            policy[t] = choice
            policies.append(policy)
    measured = problem.evaluate(np.array(policies))
    for number, one in enumerate(measured):
        told(number + 1, one)
    whole = min(one.error for one in measured)
    errors = iter(measured)
    harms = [_between(len(unit.choices), some, [max(next(errors).error - whole, 0.0) for _ in some])
             for unit, some in zip(problem.units, scanned, strict=True)]  # fmt: skip
    tried = problem.evaluate(least_harm(problem, harms)[None])
    told(len(measured) + 1, tried[0])
    return tried


def _between(choices: int, scanned: NDArray[np.intp], harm: Sequence[float]) -> Floats:
    """Harms of all choices, those between scanned ones by a line."""
    return np.asarray(np.interp(np.arange(choices), scanned, np.array(harm)), np.float64)


def evolution(problem: Problem, evaluations: int, *, told: Told, seed: int = 0) -> list[Tried]:
    """Parents by tournament, children by crossing and moving a few units, until the evaluations are used up."""
    random = np.random.default_rng(seed)
    size = max(4, min(40, evaluations // 5))
    asked = [tuple(random.integers(len(unit.choices)) for unit in problem.units) for _ in range(size - 1)]
    first_BT = np.vstack([uniform_levels(problem), *problem.ruled, problem.clip.walk(np.array(asked, np.intp))])
    tried = problem.evaluate(first_BT[:evaluations])
    for number, one in enumerate(tried):
        told(number + 1, one)
    while len(tried) < evaluations:
        living = sorted([*tried[-4 * size :], best(tried)], key=lambda one: -one.reward)[:size]
        count = min(size // 2, evaluations - len(tried))
        children = np.array([_child(problem, living, random) for _ in range(count)], np.intp)
        for one in problem.evaluate(problem.clip.walk(children)):
            tried.append(one)
            told(len(tried), one)
    return tried


def _child(problem: Problem, living: Sequence[Tried], random: np.random.Generator) -> list[int]:
    """Each unit from one of two parents; about two of them move, some far and some to a neighbour."""
    a, b = (living[int(random.integers(len(living), size=3).min())].levels for _ in range(2))
    child = [x if random.random() < 0.5 else y for x, y in zip(a, b, strict=True)]
    for t, unit in enumerate(problem.units):
        if random.random() < 2.0 / len(child):
            action = np.array(unit.action(child[t])) + random.normal(0.0, 0.15, len(unit.axes))
            child[t] = unit.asked([float(part) for part in np.clip(action, 0, 1)])
    return child
