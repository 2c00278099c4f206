"""One weird trick: convolutions by data, fully connected layers by units, on the same workers.

Convolutions have much work and few weights, fully connected layers the reverse. So each of K workers runs all
convolutions on its own b examples, and holds 1/K of the units of every fully connected layer:

    a   everybody sends all its activations to everybody; one pass of K·b examples
    b   K passes; in pass i worker i sends its b examples to all
    c   K passes; in pass i everybody sends its i-th b/K examples to all

In b one sender's wire is the bottleneck of a pass, in c all senders share it: b·A against b·A/K numbers, with A the
size of the last convolution's result. Weights of the fully connected layers may be updated after every pass (b
examples), while convolutions are updated once (K·b): ``update="each pass"``.

Krizhevsky: One Weird Trick for Parallelizing Convolutional Neural Networks. arXiv 1404.5997.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.split import Compensation, Cut, Versions, Work
from tightwire.splits.timetable import columns_of

Scheme = Literal["a", "b", "c"]
Update = Literal["together", "each pass"]
Rows = tuple[int, int]


@dataclass(frozen=True)
class WeirdTrick:
    """The model is cut before its first fully connected layer, or before layer ``first``."""

    workers: int
    scheme: Scheme
    first: int | None = None
    update: Update = "together"
    versions: ClassVar[Versions] = "current"
    microbatches: ClassVar[int] = 1
    flush: ClassVar[bool] = True
    tail: ClassVar[int] = 0
    compensation: ClassVar[Compensation] = "none"

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise RecipeError(f"weird-trick(workers={self.workers}): there is at least one worker")
        if self.scheme not in ("a", "b", "c"):
            raise RecipeError(f"weird-trick(scheme={self.scheme!r}): give a, b or c")
        if self.update not in ("together", "each pass"):
            raise RecipeError(f"weird-trick(update={self.update!r}): give 'together' or 'each pass'")

    @property
    def stages(self) -> int:
        """Convolutions, and fully connected layers; one worker has the model whole."""
        return 2 if self.workers > 1 else 1

    @property
    def cut(self) -> Cut:
        """The second stage spans all workers."""
        return Cut(wide=self.workers if self.workers > 1 else 0)

    def passes(self, sizes: tuple[int, ...]) -> list[tuple[Rows, ...]]:
        """For each pass the examples, from and to, that each worker gives; ``sizes`` are the workers' batches.

        >>> WeirdTrick(2, "c").passes((4, 4))
        [((0, 2), (0, 2)), ((2, 4), (2, 4))]
        """
        whole = tuple((0, size) for size in sizes)
        if self.scheme == "a":
            return [whole]
        if self.scheme == "b":
            return [tuple(rows if k == i else (0, 0) for k, rows in enumerate(whole)) for i in range(self.workers)]
        return [
            tuple((size * i // self.workers, size * (i + 1) // self.workers) for size in sizes)
            for i in range(self.workers)
        ]

    def work(self, stage: int, tick: int) -> Work:
        """Everybody does everything of one batch."""
        return Work(stage, 0 if tick == 0 else None, 0 if tick == 0 else None)

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """One batch."""
        return columns_of(self, min(1, minibatches), 1)

    def delay(self, stage: int) -> int:
        """None."""
        return 0

    def version(self, stage: int, minibatch: int) -> int | None:
        """As they are."""
        return None


examples = (WeirdTrick(1, "a"), WeirdTrick(2, "b"), WeirdTrick(4, "c", update="each pass"))
