"""PipeDream as data: one forward, one backward pass in turn, and a backward pass sees the weights of its forward pass.

    n = 3      unit  0   1   2   3   4   5   6   7   8   9
    stage 0          F0  F1  F2          B0  F3  B1  F4  B2
    stage 1              F0  F1      B0  F2  B1  F3  B2  F4
    stage 2                  F0  B0  F1  B1  F2  B2  F3  B3

Stage s keeps n−s minibatches, and as many versions of its weights. Between forward and backward of one minibatch it
updates n−1−s times:

    w(t+1) = w(t) − ν·∇f(w₁(t−n+1), …, w_n(t))

With vertical sync minibatch m sees the weights after m−n+1 updates at every stage, those that it met at the first one.
Harlap et al.: PipeDream: Fast and Efficient Pipeline Parallel DNN Training. arXiv 1806.03377; Narayanan et al.:
PipeDream: Generalized Pipeline Parallelism for DNN Training. SOSP 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.split import AS_IT_COMES, Compensation, Cut, Versions, Work
from tightwire.splits.timetable import check_cut, columns_of, workers_of

Sync = Literal["none", "vertical"]


def one_in_turn(stage: int, stages: int, tick: int) -> Work:
    """One forward, one backward pass in each tick, as many minibatches in flight as stages follow.

    Half a tick a pass, stage s runs forward of m at half-tick 2m+s and backward at 2m+2n−1−s: ⌊s/2⌋ ticks after the
    first stage, and n−1−⌈s/2⌉.
    """
    forward, backward = tick - stage // 2, tick - (stages - 1) + (stage + 1) // 2
    return Work(stage, forward if forward >= 0 else None, backward if backward >= 0 else None)


@dataclass(frozen=True)
class PipeDream:
    """1F1B without flush, with weight stashing.

    >>> [PipeDream(4).delay(stage) for stage in range(4)]
    [3, 2, 1, 0]
    """

    stages: int
    cut: Cut = AS_IT_COMES
    sync: Sync = "none"
    compensation: Compensation = "none"
    versions: ClassVar[Versions] = "stashed"
    microbatches: ClassVar[int] = 1
    flush: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_cut("pipedream", self.stages, self.cut, whole=True)

    @property
    def workers(self) -> int:
        """One a stage and replica."""
        return workers_of(self.stages, self.cut)

    @property
    def tail(self) -> int:
        """The first stage's last backward pass."""
        return self.stages - 1

    def work(self, stage: int, tick: int) -> Work:
        """One cell; minibatches are numbered from 0 without end."""
        return one_in_turn(stage, self.stages, tick)

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """All columns for a stream of so many minibatches, to the last backward pass."""
        return columns_of(self, minibatches, minibatches + self.tail)

    def delay(self, stage: int) -> int:
        """Updates of a stage's own weights since those that a minibatch sees: at its backward pass."""
        return self.stages - 1 - (0 if self.sync == "vertical" else stage)

    def version(self, stage: int, minibatch: int) -> int | None:
        """With vertical sync, the version that the minibatch met at the first stage."""
        return max(0, minibatch - self.stages + 1) if self.sync == "vertical" else None


def pipedream(stages: int, *, cuts: tuple[int, ...] | None = None, sync: Sync = "none") -> PipeDream:
    """1F1B without flush, with weight stashing; without ``cuts`` the parameters are balanced."""
    return PipeDream(stages, Cut(cuts), sync)


examples = (pipedream(1), pipedream(2), pipedream(3, sync="vertical"), pipedream(4), pipedream(5))
