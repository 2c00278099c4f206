"""Numbers that change during the run: what a `Knob` may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.world import At


@dataclass(frozen=True)
class Staircase:
    """One level for each stretch of epochs or steps; the last level stays.

    >>> warm = Staircase((0.25, 0.01), every=2, unit="step")
    >>> [warm(At(step=step)) for step in range(4)]
    [0.25, 0.25, 0.01, 0.01]
    """

    levels: tuple[float, ...]
    every: int = 1
    unit: Literal["epoch", "step"] = "epoch"

    def __post_init__(self) -> None:
        if not self.levels or self.every < 1:
            raise RecipeError(
                f"staircase{self.levels}, every={self.every}: it needs a level, and one {self.unit} for each"
            )

    def __call__(self, at: At) -> float:
        """The level that holds now."""
        passed = at.epoch if self.unit == "epoch" else at.step
        return self.levels[min(passed // self.every, len(self.levels) - 1)]


def staircase(*levels: float, every: int = 1, unit: Literal["epoch", "step"] = "epoch") -> Staircase:
    """One level for each stretch of ``every`` epochs or steps; the last level stays."""
    return Staircase(levels, every, unit)
