"""PipeDream-2BW as data: 1F1B on microbatches, one update a batch, two versions of the weights.

    n = 2, a batch is two microbatches      unit  0   1   2   3   4   5   6   7   8
    stage 0                                       F0  F1      B0  F2  B1  F3  B2  F4
    stage 1                                           F0  B0  F1  B1  F2  B2  F3  B3

Gradients of the m ≥ n microbatches of a batch are added up. Batch t is computed, forward and backward and at every
stage, with the weights that the updates of batches 0 … t−2 made, so there is one delay for all stages:

    W(t+1) = W(t) − ν·∇f(W(t−1))

Narayanan, Phanishayee, Shi, Chen, Zaharia: Memory-Efficient Pipeline-Parallel DNN Training. ICML 2021, arXiv
2006.09503.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.split import AS_IT_COMES, Compensation, Cut, Versions, Work
from tightwire.splits.pipedream import one_in_turn
from tightwire.splits.timetable import check_cut, columns_of, workers_of


@dataclass(frozen=True)
class TwoVersions:
    """1F1B without flush, double-buffered weights.

    >>> [TwoVersions(2, 2).version(0, microbatch) for microbatch in range(6)]
    [0, 0, 0, 0, 1, 1]
    """

    stages: int
    microbatches: int
    cut: Cut = AS_IT_COMES
    compensation: Compensation = "none"
    versions: ClassVar[Versions] = "stashed"
    flush: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_cut("pipedream-2bw", self.stages, self.cut, whole=True)
        if self.microbatches < self.stages:
            raise RecipeError(
                f"pipedream-2bw(stages={self.stages}, microbatches={self.microbatches}): two versions are enough only "
                f"if a batch fills the pipe; use microbatches={self.stages} or more"
            )

    @property
    def workers(self) -> int:
        """One a stage and replica."""
        return workers_of(self.stages, self.cut)

    @property
    def tail(self) -> int:
        """The first stage's last backward pass."""
        return self.stages - 1

    def work(self, stage: int, tick: int) -> Work:
        """One cell; microbatches are numbered from 0 without end."""
        return one_in_turn(stage, self.stages, tick)

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """All columns for a stream of so many microbatches, to the last backward pass."""
        return columns_of(self, minibatches, minibatches + self.tail)

    def delay(self, stage: int) -> int:
        """One update, at every stage; none if there is no pipe."""
        return min(1, self.stages - 1)

    def version(self, stage: int, minibatch: int) -> int | None:
        """Batch t is computed with the weights after t−1 updates."""
        return max(0, minibatch // self.microbatches - self.delay(stage))


def pipedream_2bw(stages: int, *, microbatches: int = 4, cuts: tuple[int, ...] | None = None) -> TwoVersions:
    """1F1B without flush, double-buffered weights; without ``cuts`` the parameters are balanced."""
    return TwoVersions(stages, microbatches, Cut(cuts))


examples = (pipedream_2bw(1), pipedream_2bw(2, microbatches=2), pipedream_2bw(3, microbatches=4))
