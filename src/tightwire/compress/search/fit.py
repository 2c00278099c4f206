"""A policy made to take the time it may, by networks that are timed: one unit wider or narrower at a time.

    too fast    each unit alone as much wider as the time that is left allows, going by sums of timed layers
    too slow    each unit alone as much narrower as is needed
    of these    the one with the highest reward is timed; nearer to the aim, it is where the next step begins
    nothing     brings it nearer any more: on from the nearest on the other side of the budget

Sums of timed layers say what to try, only what was timed says what fits: processors work in blocks of channels, so that
three more can cost nothing, and the next one much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import numpy as np

from tightwire.compress.search.problem import Problem, Tried, best

NEAR, AIMED = 0.94, 0.97  # the part of its budget that is used well enough, and that is aimed at
_TIMED_AT_MOST = 24
_REACH = 6  # where no change of so much brings it nearer, twice as much is tried, and so on

Timed = tuple[Tried, float]  # a policy, and what it takes


def fit(problem: Problem, start: Timed, time_of: Callable[[Sequence[int]], float], budget: float) -> Timed:
    """The policy that uses most of the budget without exceeding it, from ``start`` on; if none fits, the fastest."""
    timed, now, reach, left = {start[0].levels: start}, start, 1, set[tuple[int, ...]]()

    def off(one: Timed) -> float:
        return abs(log(one[1] / (AIMED * budget)))

    while len(timed) < _TIMED_AT_MOST and not NEAR * budget <= now[1] <= budget:
        if reach > _REACH:  # on from the other side
            left.add(now[0].levels)
            beyond = [
                one for one in timed.values() if one[0].levels not in left and (one[1] > budget) != (now[1] > budget)
            ]
            if not beyond:
                break
            now, reach = min(beyond, key=off), 1
        wanted = now[0].cost * (AIMED * budget / now[1]) ** reach
        around = [levels for levels in _one_changed(problem, now[0], wanted) if levels not in timed]
        if not around:
            reach += 1
            continue
        tried = best(problem.evaluate(np.array(around, np.intp)))
        timed[tried.levels] = tried, time_of(tried.levels)
        nearer = min(now, timed[tried.levels], key=off)
        now, reach = nearer, reach if nearer is now else 1
    return nearest(list(timed.values()), budget)


def nearest(timed: Sequence[Timed], budget: float) -> Timed:
    """The slowest within the budget; where none is, the fastest."""
    within = [one for one in timed if one[1] <= budget]
    return max(within, key=lambda one: one[1]) if within else min(timed, key=lambda one: one[1])


def _one_changed(problem: Problem, now: Tried, wanted: float) -> list[tuple[int, ...]]:
    """Each unit alone at the choice whose cost comes nearest to what is wanted, if that is another and not away."""
    found = []
    for t in range(len(problem.units)):
        cost_C = problem.cost.around(np.array([now.levels], np.intp), t)[0]
        towards_C = cost_C > now.cost if wanted > now.cost else cost_C < now.cost
        if towards_C.any():
            level = int(np.argmin(np.where(towards_C, np.abs(cost_C - wanted), np.inf)))
            found.append((*now.levels[:t], level, *now.levels[t + 1 :]))
    return found
