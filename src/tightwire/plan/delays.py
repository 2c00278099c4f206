"""How long steps really take: factors on the computation of each step, drawn from a law or from what was measured."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp

from tightwire.plan.errors import PlanError


@dataclass
class Lognormal:
    """exp(σ·N(0, 1)), times the slowdown of the rank: the law of `tightwire train --delays lognormal:σ`."""

    sigma: float
    slowdown: dict[int, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        self._dice: dict[int, random.Random] = {}

    def __call__(self, rank: int, step: int) -> float:
        """One step of one worker."""
        dice = self._dice.get(rank)
        if dice is None:
            dice = self._dice[rank] = random.Random(f"{self.seed} {rank}")
        return exp(self.sigma * dice.gauss(0, 1)) * self.slowdown.get(rank, 1.0)


@dataclass
class Measured:
    """Any of the measured step times, relative to their mean."""

    samples: Sequence[float]
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.samples or min(self.samples) <= 0:
            raise PlanError(f"{len(self.samples)} measured step times: give at least one, all above 0")
        mean = sum(self.samples) / len(self.samples)
        self._factors = [sample / mean for sample in self.samples]
        self._dice = random.Random(self.seed)

    def __call__(self, rank: int, step: int) -> float:
        """One step of one worker."""
        return self._dice.choice(self._factors)
