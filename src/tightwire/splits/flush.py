"""Pipelines with a flush as data: a batch is cut into microbatches, all are through before the update. Exact gradients.

    GPipe      unit  0   1   2   3   4   5   6   7   8   9   10  11
    stage 0          F0  F1  F2  F3          B0  B1  B2  B3
    stage 1              F0  F1  F2  F3  B0  B1  B2  B3

    1F1B       unit  0   1   2   3   4   5   6   7   8   9
    stage 0          F0  F1      B0  F2  B1  F3  B2      B3
    stage 1              F0  B0  F1  B1  F2  B2  F3  B3

Both wait for (n−1)/(m+n−1) of the time. GPipe keeps all m microbatches alive at each stage, 1F1B at most n−s.
Huang et al.: GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism. NeurIPS 2019, arXiv
1811.06965. 1F1B with a flush: Fan et al.: DAPPLE: A Pipelined Data Parallel Approach. PPoPP 2021, arXiv 2007.01045.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.split import AS_IT_COMES, Compensation, Cut, Versions, Work
from tightwire.splits.timetable import check_cut, columns_of, workers_of

Order = Literal["gpipe", "1f1b"]


@dataclass(frozen=True)
class Flush:
    """All microbatches of a batch, then an update.

    >>> [Flush(4, 8, "1f1b").warmup(stage) for stage in range(4)]
    [3, 2, 1, 0]
    """

    stages: int
    microbatches: int
    order: Order
    cut: Cut = AS_IT_COMES
    compensation: ClassVar[Compensation] = "none"
    versions: ClassVar[Versions] = "current"
    flush: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_cut(self.order, self.stages, self.cut, whole=True)
        if self.microbatches < 1:
            raise RecipeError(f"{self.order}(microbatches={self.microbatches}): a batch is at least one microbatch")

    @property
    def workers(self) -> int:
        """One a stage and replica."""
        return workers_of(self.stages, self.cut)

    @property
    def tail(self) -> int:
        """Until the last backward pass of the stage with the longest warm-up."""
        return self.warmup(0)

    def warmup(self, stage: int) -> int:
        """Forward passes before the first backward pass, beside the one in its tick."""
        return self.microbatches if self.order == "gpipe" else min(self.microbatches, self.stages - 1 - stage)

    def work(self, stage: int, tick: int) -> Work:
        """One cell of one batch."""
        backward = tick - self.warmup(stage)
        return Work(stage, tick if tick < self.microbatches else None, backward if backward >= 0 else None)

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """All columns of one batch; of its first microbatches, if fewer are asked for."""
        return columns_of(self, min(minibatches, self.microbatches), self.microbatches + self.tail)

    def delay(self, stage: int) -> int:
        """None: weights change only when nothing is in flight."""
        return 0

    def version(self, stage: int, minibatch: int) -> int | None:
        """As they are."""
        return None


def gpipe(stages: int, *, microbatches: int = 4, cuts: tuple[int, ...] | None = None) -> Flush:
    """All forward passes, then all backward passes."""
    return Flush(stages, microbatches, "gpipe", Cut(cuts))


def one_forward_one_backward(stages: int, *, microbatches: int = 4, cuts: tuple[int, ...] | None = None) -> Flush:
    """One forward, one backward pass in turn."""
    return Flush(stages, microbatches, "1f1b", Cut(cuts))


examples = (
    gpipe(1), gpipe(2), gpipe(4, microbatches=8), one_forward_one_backward(1), one_forward_one_backward(2),
    one_forward_one_backward(4, microbatches=2), one_forward_one_backward(4, microbatches=8),
)  # fmt: skip
