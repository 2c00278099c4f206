"""The `split` axis: whether the model itself is cut.

A pipeline changes what autograd runs, so it is a split and not an exchange. Its timetable is data:

    layer-wise, 2 stages     tick      0     1     2     3
                             stage 0   F0    F1    F2B0  F3B1
                             stage 1         F0B0  F1B1  F2B2

A tick of a stage is a forward pass, then a backward pass. A stage waits for what another one computes, so only the
order inside each stage is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

Versions: TypeAlias = Literal["current", "stashed"]
Compensation: TypeAlias = Literal["none", "discount", "predict", "spike", "both"]
"""What is done about old gradients: nothing, smaller steps where they are older, weights foretold, momentum paid out at
once, or the last two together (`splits.ageing`)."""


@dataclass(frozen=True)
class Work:
    """What one stage does in one tick: forward of one minibatch, then backward of another, then its update."""

    stage: int
    forward: int | None
    backward: int | None


@dataclass(frozen=True)
class Cut:
    """Where a model is cut, as far as a person has said.

    ``cuts`` is the first layer of each stage but the first; None lets the parameters be balanced. ``wide`` is the
    number of workers over which the columns of the last layer are dealt, 0 if it stays whole, and ``columns`` how many
    each of them gets; empty lets the parameters be balanced. ``replicas`` is how many times all of that is there, each
    on other data.
    """

    cuts: tuple[int, ...] | None = None
    wide: int = 0
    columns: tuple[int, ...] = ()
    replicas: int = 1


AS_IT_COMES = Cut()
"""Balanced by parameters, every layer whole."""


@runtime_checkable
class Split(Protocol):
    """How a model is cut into stages, and who computes what when."""

    @property
    def stages(self) -> int:
        """Number of stages; 1 means the model is whole."""
        ...

    @property
    def workers(self) -> int:
        """Number of workers: one a stage, unless the last stage spans several."""
        ...

    @property
    def versions(self) -> Versions:
        """Whether a backward pass sees the weights as they are now or as they were in its forward pass."""
        ...

    @property
    def cut(self) -> Cut:
        """Where the model is cut."""
        ...

    @property
    def microbatches(self) -> int:
        """Into how many pieces a batch is cut; what the timetable calls a minibatch is one of them."""
        ...

    @property
    def flush(self) -> bool:
        """Whether a batch is through before the next one begins; the timetable then begins anew with each."""
        ...

    @property
    def tail(self) -> int:
        """Ticks after the last minibatch was fed until it is through."""
        ...

    @property
    def compensation(self) -> Compensation:
        """What is done about old gradients."""
        ...

    def delay(self, stage: int) -> int:
        """Updates of a stage's own weights between those that a minibatch sees and its own update."""
        ...

    def version(self, stage: int, minibatch: int) -> int | None:
        """After how many own updates a forward pass must see the weights; None: as they are."""
        ...

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """The timetable, tick by tick."""
        ...

    def work(self, stage: int, tick: int) -> Work:
        """One cell of the timetable, for a stream without end, or for one batch if it is flushed."""
        ...


@dataclass(frozen=True)
class Whole:
    """The model is not cut."""

    stages: ClassVar[int] = 1
    workers: ClassVar[int] = 1
    versions: ClassVar[Versions] = "current"
    cut: ClassVar[Cut] = AS_IT_COMES
    microbatches: ClassVar[int] = 1
    flush: ClassVar[bool] = False
    tail: ClassVar[int] = 0
    compensation: ClassVar[Compensation] = "none"

    def delay(self, stage: int) -> int:
        """None."""
        return 0

    def version(self, stage: int, minibatch: int) -> int | None:
        """As they are."""
        return None

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        """Forward and backward of one minibatch after the other."""
        return ((Work(0, m, m),) for m in range(minibatches))

    def work(self, stage: int, tick: int) -> Work:
        """Minibatch ``tick``."""
        return Work(stage, tick, tick)


whole = Whole()
