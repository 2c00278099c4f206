"""Numbers that change during the run: what a `Knob` may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.world import At, World  # noqa: F401 -- World is for the doctests


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
        passed = int(at.passed()) if self.unit == "epoch" else at.step
        return self.levels[min(passed // self.every, len(self.levels) - 1)]


@dataclass(frozen=True)
class LinearScaling:
    """The rate of one worker grows to that of all: from 1 to P over ``warmup_epochs``, a little in each step.

    Goyal et al.: Accurate, Large Minibatch SGD. arXiv 1706.02677, 2017, section 2.

    >>> scaling = LinearScaling(warmup_epochs=5)
    >>> [scaling(At(epochs=epochs, world=World(size=9))) for epochs in (0.0, 2.5, 7.0)]
    [1.0, 5.0, 9.0]
    """

    warmup_epochs: float = 5.0

    def __call__(self, at: At) -> float:
        """The factor that holds now."""
        passed = min(1.0, at.passed() / self.warmup_epochs) if self.warmup_epochs > 0 else 1.0
        return 1.0 + (at.world.size - 1) * passed


def linear_scaling(warmup_epochs: float = 5.0) -> LinearScaling:
    """From 1 to the number of workers, over some epochs."""
    return LinearScaling(warmup_epochs)


def staircase(*levels: float, every: int = 1, unit: Literal["epoch", "step"] = "epoch") -> Staircase:
    """One level for each stretch of ``every`` epochs or steps; the last level stays."""
    return Staircase(levels, every, unit)
