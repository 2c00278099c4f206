"""Pipelined back-propagation as data: every stage updates its layers at once, and nothing waits for a flush.

In tick τ stage s of n runs the forward pass of minibatch τ−s, then the backward pass of minibatch τ−2(n−1)+s, and
updates its own layers at once:

    n = 3      tick  0    1    2     3     4     5
    stage 0          F0   F1   F2    F3    F4B0  F5B1
    stage 1               F0   F1    F2B0  F3B1  F4B2
    stage 2                    F0B0  F1B1  F2B2  F3B3

Forward and backward of one minibatch at stage s are 2(n−1−s) updates apart.
Chen, Eversole, Li, Yu, Seide: Pipelined Back-Propagation. Interspeech 2012. One stage is serial SGD.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.split import AS_IT_COMES, Compensation, Cut, Versions, Work
from tightwire.splits.timetable import check_cut, columns_of, workers_of


@dataclass(frozen=True)
class Layerwise:
    """Contiguous layers on each worker, minibatches streamed through them, updates without waiting.

    >>> [w.backward for w in Layerwise(3).tick(4)]
    [0, 1, 2]
    """

    stages: int
    cut: Cut = AS_IT_COMES
    compensation: Compensation = "none"
    versions: ClassVar[Versions] = "current"
    microbatches: ClassVar[int] = 1
    flush: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_cut("layerwise", self.stages, self.cut)

    @property
    def workers(self) -> int:
        """One a stage, unless the last layer is dealt out."""
        return workers_of(self.stages, self.cut)

    @property
    def tail(self) -> int:
        """There and back."""
        return 2 * (self.stages - 1)

    def work(self, stage: int, tick: int) -> Work:
        """One cell; minibatches are numbered from 0 without end."""
        forward, backward = tick - stage, tick - 2 * (self.stages - 1) + stage
        return Work(stage, forward if forward >= 0 else None, backward if backward >= 0 else None)

    def tick(self, tick: int) -> tuple[Work, ...]:
        """One column of the picture above."""
        return tuple(self.work(stage, tick) for stage in range(self.stages))

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """All columns for a stream of so many minibatches, to the last backward pass."""
        return columns_of(self, minibatches, minibatches + self.tail)

    def delay(self, stage: int) -> int:
        """Updates of a stage's own weights between forward and backward of one minibatch.

        >>> [Layerwise(4).delay(stage) for stage in range(4)]
        [6, 4, 2, 0]
        """
        return 2 * (self.stages - 1 - stage)

    def version(self, stage: int, minibatch: int) -> int | None:
        """Weights as they are."""
        return None


def layerwise(stages: int, *, cuts: tuple[int, ...] | None = None) -> Layerwise:
    """The layer-wise pipeline; without ``cuts`` the parameters are balanced."""
    return Layerwise(stages, Cut(cuts))


examples = (layerwise(1), layerwise(2), layerwise(4), Layerwise(3, Cut(wide=4), "predict"))
