"""Pipelined back-propagation as data: who computes which minibatch, when.

In tick τ stage s of n runs the forward pass of minibatch τ−s, then the backward pass of minibatch τ−2(n−1)+s, and
updates its own layers at once:

    n = 3      tick  0    1    2     3     4     5
    stage 0          F0   F1   F2    F3    F4B0  F5B1
    stage 1               F0   F1    F2B0  F3B1  F4B2
    stage 2                    F0B0  F1B1  F2B2  F3B3

Forward and backward of one minibatch at stage s are 2(n−1−s) updates apart; nothing ever waits for a flush.
Chen, Eversole, Li, Yu, Seide: Pipelined Back-Propagation. Interspeech 2012. One stage is serial SGD.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.split import Work


@dataclass(frozen=True)
class Layerwise:
    """Contiguous layers on each worker, minibatches streamed through them, updates without waiting.

    >>> [w.backward for w in Layerwise(3).tick(4)]
    [0, 1, 2]
    """

    stages: int
    cuts: tuple[int, ...] | None = None
    versions: Literal["current", "stashed"] = "current"

    def __post_init__(self) -> None:
        if self.stages < 1:
            raise RecipeError(f"layerwise(stages={self.stages}): there is at least one stage")
        if self.cuts is not None and len(self.cuts) != self.stages - 1:
            raise RecipeError(f"layerwise(stages={self.stages}, cuts={self.cuts}): {self.stages} stages have "
                              f"{self.stages - 1} cuts")  # fmt: skip

    def work(self, stage: int, tick: int) -> Work:
        """One cell; minibatches are numbered from 0 without end."""
        forward, backward = tick - stage, tick - 2 * (self.stages - 1) + stage
        return Work(stage, forward if forward >= 0 else None, backward if backward >= 0 else None)

    def tick(self, tick: int) -> tuple[Work, ...]:
        """One column of the picture above."""
        return tuple(self.work(stage, tick) for stage in range(self.stages))

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """All columns for a stream of so many minibatches, to the last backward pass."""
        for tick in range(minibatches + 2 * (self.stages - 1)):
            yield tuple(
                Work(w.stage, _within(w.forward, minibatches), _within(w.backward, minibatches))
                for w in self.tick(tick)
            )

    def delay(self, stage: int) -> int:
        """Updates of a stage's own weights between forward and backward of one minibatch.

        >>> [Layerwise(4).delay(stage) for stage in range(4)]
        [6, 4, 2, 0]
        """
        return 2 * (self.stages - 1 - stage)


def _within(minibatch: int | None, minibatches: int) -> int | None:
    return minibatch if minibatch is not None and minibatch < minibatches else None


def layerwise(stages: int, *, cuts: tuple[int, ...] | None = None) -> Layerwise:
    """The layer-wise pipeline; without ``cuts`` the parameters are balanced."""
    return Layerwise(stages, cuts)


examples = (layerwise(1), layerwise(2), layerwise(4))
