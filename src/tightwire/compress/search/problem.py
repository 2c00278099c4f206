"""A search as one value: what is decided, what it may cost, what it is worth. Every method is given the same.

    resource-constrained    reward = −error                    with cost ≤ target, whatever is asked
    accuracy-guaranteed     reward = −error · log(FLOPs)       or −error · log(parameters); no target is needed

He et al.: AMC. ECCV 2018, section 3.4. Where none of n samples is answered wrong, half a one counts before logarithms,
or all prices would be alike. Scores are remembered: the same policy is not measured twice, and counts as an
evaluation all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import Protocol

import numpy as np

from tightwire.compress.search.clip import Clip
from tightwire.compress.search.cost import Cost, Levels
from tightwire.compress.search.units import Choice, Unit


class Scorer(Protocol):
    """Measures policies: pruned as they say, nothing retrained."""

    def errors(self, level_BT: Levels) -> list[float]:
        """The share of wrong answers of each policy, on samples kept apart for this."""


@dataclass(frozen=True)
class Tried:
    """One policy, measured."""

    levels: tuple[int, ...]
    error: float
    cost: float
    reward: float


@dataclass(frozen=True, eq=False)
class Problem:
    """Units, a hard budget, and what a policy is worth. ``price`` is what the reward takes the logarithm of, if any.

    ``samples`` is how many errors are counted on; 0 where they are exact. ``ruled`` are policies that need no search
    (`rules`), uniform aside.
    """

    units: tuple[Unit, ...]
    clip: Clip
    scorer: Scorer
    price: Cost | None = None
    samples: int = 0
    ruled: tuple[tuple[int, ...], ...] = ()
    known: dict[tuple[int, ...], float] = field(default_factory=dict)

    @property
    def cost(self) -> Cost:
        """What the budget counts."""
        return self.clip.cost

    def evaluate(self, level_BT: Levels) -> list[Tried]:
        """Measure policies, those that are new at once."""
        keys = [tuple(int(level) for level in row) for row in level_BT]
        new = list(dict.fromkeys(key for key in keys if key not in self.known))
        if new:
            for key, error in zip(new, self.scorer.errors(np.array(new, np.intp)), strict=True):
                self.known[key] = error
        cost_B = self.cost.total(level_BT)
        price_B = self.price.total(level_BT) if self.price is not None else None
        return [
            Tried(key, self.known[key], float(cost_B[b]),
                  -self.known[key] if price_B is None else -self._at_least(self.known[key]) * log(float(price_B[b])))
            for b, key in enumerate(keys)
        ]  # fmt: skip

    def _at_least(self, error: float) -> float:
        return max(error, 0.5 / self.samples) if self.samples else error

    def choices(self, levels: Sequence[int]) -> list[Choice]:
        """The policy in words."""
        return [unit.choices[level] for unit, level in zip(self.units, levels, strict=True)]


def best(tried: Sequence[Tried]) -> Tried:
    """The highest reward; among equals the cheapest, then the first."""
    return max(tried, key=lambda one: (one.reward, -one.cost))
