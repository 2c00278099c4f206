"""The `split` axis: whether the model itself is cut.

A pipeline changes what autograd runs, so it is a split and not an exchange. Its timetable is data:

    layer-wise, 2 stages     tick      0     1     2     3
                             stage 0   F0    F1    F2B0  F3B1
                             stage 1         F0B0  F1B1  F2B2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True)
class Work:
    """What one stage does in one tick: forward of one minibatch, then backward of another, then its update."""

    stage: int
    forward: int | None
    backward: int | None


@runtime_checkable
class Split(Protocol):
    """How a model is cut into stages, and who computes what when."""

    @property
    def stages(self) -> int:
        """Number of stages; 1 means the model is whole."""
        ...

    @property
    def versions(self) -> Literal["current", "stashed"]:
        """Whether a backward pass sees the weights as they are now or as they were in its forward pass."""
        ...

    @property
    def cuts(self) -> tuple[int, ...] | None:
        """The first layer of each stage but the first; None lets the parameters be balanced."""
        ...

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """The timetable, tick by tick."""
        ...

    def work(self, stage: int, tick: int) -> Work:
        """One cell of the timetable, for a stream without end."""
        ...


@dataclass(frozen=True)
class Whole:
    """The model is not cut."""

    stages: int = 1
    versions: Literal["current", "stashed"] = "current"
    cuts: tuple[int, ...] | None = None

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """Forward and backward of one minibatch after the other."""
        return ((Work(0, m, m),) for m in range(minibatches))

    def work(self, stage: int, tick: int) -> Work:
        """Minibatch ``tick``."""
        return Work(stage, tick, tick)


whole = Whole()
