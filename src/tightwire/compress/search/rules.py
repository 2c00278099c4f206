"""Policies that need no search, within the budget: the same share everywhere, one threshold, or the least harm.

    uniform     every unit the same share
    magnitude   a layer keeps |w| ≥ τ: what is small goes, wherever it is
    LAMP        a layer keeps score(w) ≥ τ: a weight's square over the sum of all squares not smaller in its layer
                Lee, Park, Mo, Ahn, Shin: Layer-adaptive Sparsity for the Magnitude-based Pruning. ICLR 2021,
                arXiv 2010.07611
    curvature   channels: Σ harm or Σ harm² as small as can be, harm as foreseen (`curvature`); the second spreads it

A search begins with them, and must have a reason to end elsewhere (`settle`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightwire.compress.prune.choose import relative
from tightwire.compress.search.cost import Floats, Levels
from tightwire.compress.search.knapsack import knapsack
from tightwire.compress.search.problem import Problem, best
from tightwire.compress.search.units import Unit

_HALVINGS = 30
_PASSES = 6  # of the knapsack, where the price of a unit depends on its neighbours
_TINY = np.float32(1e-30)  # what is zero already is not kept


def home(problem: Problem) -> tuple[int, ...]:
    """The best of the policies that need no search; they are measured if they are more than one."""
    even_T = uniform_levels(problem)
    if not problem.ruled:
        return tuple(even_T.tolist())
    return best(problem.evaluate(np.array([even_T, *problem.ruled], np.intp))).levels


def uniform_levels(problem: Problem) -> Levels:
    """The largest share, rounded down everywhere; then up, unit by unit, where that still fits."""
    level_T = at_share(problem, _largest_share(problem))
    for t, unit in enumerate(problem.units):
        above = level_T[t] + max(1, int(np.prod(unit.axes[1:])))
        if above < len(unit.choices) and problem.cost.around(level_T[None], t)[0, above] <= problem.clip.target:
            level_T[t] = above
    return level_T


def at_share(problem: Problem, share: float) -> NDArray[np.intp]:
    """The same action for all units, rounded down to what they have."""
    chosen = []
    for unit in problem.units:
        action = unit.asked([0.0, *(1.0 for _ in unit.axes[1:])]), unit.asked([1.0 for _ in unit.axes])
        column = range(action[0], action[1] + 1, max(1, int(np.prod(unit.axes[1:]))))
        fits = [choice for choice in column if unit.choices[choice].ratio <= share + 1e-9]
        chosen.append(fits[-1] if fits else column[0])
    return np.array(chosen, np.intp)


def _largest_share(problem: Problem) -> float:
    low, high = 0.0, 1.0
    if problem.cost.total(at_share(problem, 1.0)[None])[0] <= problem.clip.target:
        return 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = problem.cost.total(at_share(problem, middle)[None])[0] <= problem.clip.target
        low, high = (middle, high) if fits else (low, middle)
    return low


def by_harm(problem: Problem, harms: Sequence[Floats]) -> tuple[tuple[int, ...], ...]:
    """The policies of least harm, and of least harm squared."""
    found = [least_harm(problem, [harm**power for harm in harms]) for power in (1, 2)]
    return tuple(dict.fromkeys(tuple(levels.tolist()) for levels in found))


def least_harm(problem: Problem, harms: Sequence[Floats]) -> Levels:
    """The least sum of harms within the budget; ``harms`` has a number for each choice of each unit.

    Exact where every unit has its own price; else prices are taken at the last policy, and again until it stays. The
    result is clipped: what it costs is counted exactly, whatever the prices said.
    """
    cost = problem.cost
    now_T = uniform_levels(problem)
    found: list[Levels] = []
    for _ in range(_PASSES if cost.terms else 1):
        around = [cost.around(now_T[None], t)[0] for t in range(len(problem.units))]
        total = float(cost.total(now_T[None])[0])
        prices = [row - row[now_T[t]] for t, row in enumerate(around)]
        lowest = [float(row.min()) for row in prices]
        room = problem.clip.target - total - sum(lowest)
        chosen = knapsack([row - low for row, low in zip(prices, lowest, strict=True)], harms, max(room, 0.0))
        now_T = problem.clip.walk(np.array(chosen, np.intp)[None])[0]
        found.append(now_T)
    return min(found, key=lambda policy: sum(float(harm[c]) for harm, c in zip(harms, policy, strict=True)))


@torch.no_grad()
def by_thresholds(problem: Problem, weights: Mapping[str, Tensor]) -> tuple[tuple[int, ...], ...]:
    """One policy for each kind of score and number of bits that units have, of single weights (pattern "fine")."""
    bits = sorted({choice.bits or 0 for choice in problem.units[0].choices})
    found = []
    for score in (torch.abs, relative):
        sorted_T = [
            np.sort(score(weights[unit.name].detach()).flatten().float().cpu().numpy()) for unit in problem.units
        ]
        for width in bits:
            levels = _at_threshold(problem, sorted_T, width)
            if levels is not None:
                found.append(levels)
    return tuple(dict.fromkeys(found))


def _at_threshold(problem: Problem, sorted_T: Sequence[NDArray[np.float32]], bits: int) -> tuple[int, ...] | None:
    """The lowest threshold that fits, found among the scores themselves; None where even the highest does not."""
    every = np.concatenate([scores[:: max(1, len(scores) // 4096)] for scores in sorted_T])
    every.sort()
    low, high, fitting = 0, len(every) - 1, None
    while low <= high:
        middle = (low + high) // 2
        kept = [1 - np.searchsorted(scores, max(every[middle], _TINY)) / len(scores) for scores in sorted_T]
        levels = [_nearest_below(unit, share, bits) for unit, share in zip(problem.units, kept, strict=True)]
        if problem.cost.total(np.array([levels], np.intp))[0] <= problem.clip.target:
            fitting, high = tuple(levels), middle - 1
        else:
            low = middle + 1
    return fitting


def _nearest_below(unit: Unit, share: float, bits: int) -> int:
    """The choice of so many bits that keeps the most, and no more than the share; the least where all keep more."""
    column = [n for n, choice in enumerate(unit.choices) if choice.pattern == "fine" and (choice.bits or 0) == bits]
    fits = [n for n in column if unit.choices[n].ratio <= share + 1e-9]
    return fits[-1] if fits else column[0]
