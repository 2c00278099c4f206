"""Several stages a worker: interleaved 1F1B and zero-bubble schedules, as `torch.distributed.pipelining` runs them.

    2 workers, 2 stages each      worker 0   stages 0 and 2
                                  worker 1   stages 1 and 3

With v stages a worker the pipe waits for (n−1)/(v·m) of the ideal time (interleaved: Narayanan et al.: Efficient
Large-Scale Language Model Training on GPU Clusters Using Megatron-LM. SC 2021, arXiv 2104.04473). A zero-bubble
schedule also cuts the backward pass into the error, which others wait for, and the gradient, which nobody does (Qi,
Wan, Huang, Lin: Zero Bubble Pipeline Parallelism. ICLR 2024, arXiv 2401.10241).

Between processes the order is torch's. Workers of one process take the plain one that this timetable gives, all forward
passes and then all backward passes; the gradient is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.split import AS_IT_COMES, Compensation, Cut, Versions, Work
from tightwire.splits.timetable import check_cut, columns_of

Order = Literal["interleaved", "zero-bubble"]
TORCH: dict[Order, str] = {"interleaved": "Interleaved1F1B", "zero-bubble": "InterleavedZeroBubble"}


@dataclass(frozen=True)
class Interleaved:
    """Worker r of n keeps stages r, r+n, r+2n, …; an update after all microbatches of a batch.

    >>> Interleaved(workers=2, chunks=2, microbatches=4, order="interleaved").stages
    4
    """

    workers: int
    chunks: int
    microbatches: int
    order: Order
    cut: Cut = AS_IT_COMES
    compensation: ClassVar[Compensation] = "none"
    versions: ClassVar[Versions] = "current"
    flush: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_cut(self.order, self.stages, self.cut, whole=True)
        if self.microbatches < 1 or self.microbatches % self.workers:
            raise RecipeError(
                f"{self.order}(workers={self.workers}, microbatches={self.microbatches}): microbatches take turns in "
                f"groups of as many as there are workers; use a multiple of {self.workers}"
            )

    @property
    def stages(self) -> int:
        """Of all workers."""
        return self.workers * self.chunks

    @property
    def tail(self) -> int:
        """Until the last backward pass of the first stage."""
        return self.microbatches + 2 * self.stages - 2

    def work(self, stage: int, tick: int) -> Work:
        """One cell of one batch."""
        forward = tick - stage
        backward = tick - (self.microbatches + self.stages - 1) - (self.stages - 1 - stage)
        inside = range(self.microbatches)
        return Work(stage, forward if forward in inside else None, backward if backward in inside else None)

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """All columns of one batch; of its first microbatches, if fewer are asked for."""
        return columns_of(self, min(minibatches, self.microbatches), self.microbatches + self.tail)

    def delay(self, stage: int) -> int:
        """None: weights change only when nothing is in flight."""
        return 0

    def version(self, stage: int, minibatch: int) -> int | None:
        """As they are."""
        return None


examples = (Interleaved(2, 2, 4, "interleaved"), Interleaved(3, 2, 3, "zero-bubble"))
