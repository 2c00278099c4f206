"""Variations of a good policy: a few units on their own, all of them along one direction, or all towards home.

    nudge      up to three units drawn anew around what they are
    tilt       a_t + σ·⟨w, f_t − mean f⟩ + δ     w drawn for the episode, f the features of a unit, δ meets the budget
    homeward   a_t + p·(h_t − a_t) + δ           p of the way home, to h (`rules`); p drawn for the episode

A network of fifty layers has too many units to move three at a time: a tilt says "late layers less, early ones more" in
one episode. The idea is that of noise on the actor's parameters, a function of the state like this one: Plappert et
al.: Parameter Space Noise for Exploration. ICLR 2018, arXiv 1706.01905. A step homeward asks how much of what sets a
policy apart from home was worth it: what chance brought in costs nothing to leave (`settle` takes what is nearest).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.search.noise import truncated_normal
from tightwire.compress.search.problem import Problem

Action = NDArray[np.float32]
_MOST = 3  # units that a nudge moves
_HALVINGS = 10


def nudge(actions: Sequence[Action], sigma: float, random: np.random.Generator) -> list[Action]:
    """The actions, of a few units drawn anew."""
    moved = list(actions)
    for t in random.permutation(len(moved))[: random.integers(1, _MOST + 1)]:
        moved[t] = truncated_normal(moved[t], sigma, random)
    return moved


def tilt(
    problem: Problem, actions: Sequence[Action], feature_TF: NDArray[np.float64], sigma: float,
    random: np.random.Generator,
) -> list[Action]:  # fmt: skip
    """The actions, how much each unit keeps moved along a direction of the features."""
    centred_TF = feature_TF - feature_TF.mean(0)
    step_T = sigma * (centred_TF @ random.normal(0.0, 1.0, feature_TF.shape[1]))
    return _within(problem, _shifted(actions, step_T))


def homeward(problem: Problem, actions: Sequence[Action], even: Sequence[Action], part: float) -> list[Action]:
    """The actions, all moved by ``part`` of their distance to those of another policy."""
    return _within(
        problem, [mine + np.float32(part) * (other - mine) for mine, other in zip(actions, even, strict=True)]
    )


def _within(problem: Problem, actions: Sequence[Action]) -> list[Action]:
    """All units up or down by as much, so that the budget is met and used; only met where a price is weighed."""
    low, high, ones_T = -1.0, 1.0 if problem.price is None else 0.0, np.ones(len(actions))
    if _fits(problem, _shifted(actions, high * ones_T)):
        return _shifted(actions, high * ones_T)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _fits(problem, _shifted(actions, middle * ones_T)) else (low, middle)
    return _shifted(actions, low * ones_T)


def _shifted(actions: Sequence[Action], step_T: NDArray[np.float64]) -> list[Action]:
    moved = []
    for action, step in zip(actions, step_T, strict=True):
        other = action.copy()
        other[0] = min(max(float(action[0]) + float(step), 0.0), 1.0)
        moved.append(other)
    return moved


def _fits(problem: Problem, actions: Sequence[Action]) -> bool:
    levels = [unit.asked([float(a) for a in action]) for unit, action in zip(problem.units, actions, strict=True)]
    return bool(problem.cost.total(np.array([levels], np.intp))[0] <= problem.clip.target)
