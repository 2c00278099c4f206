"""The `schedule` axis: when a worker exchanges, and who may go on.

A schedule is a pure function of clocks, so the worker, the parameter shard and the simulator share it:

    worker      due(clock)          exchange now? before or after the local step?
    shard       admit(view, meta)   apply this contribution now, hold it for others, drop it, or look again later?
    shard       serve(view, meta)   may this worker read the centre yet?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Due:
    """What a worker does at one step; ``before_local`` puts the exchange in front of the local step."""

    push: bool
    pull: bool
    before_local: bool = False


class Verdict(Enum):
    """What a shard does with a contribution."""

    APPLY = "apply"  # with everything held so far
    HOLD = "hold"
    DROP = "drop"
    WAIT = "wait"  # as if it had not come yet: asked again after every event, its worker is not answered meanwhile


@dataclass(frozen=True)
class Meta:
    """What is known of one contribution: whose, of which of its steps, made at which version of the centre."""

    worker: int
    clock: int
    version: int = 0


@dataclass(frozen=True)
class View:
    """What a shard knows: its version (updates applied), each worker's clock, and who is being held.

    ``clocks`` holds the workers that take part now, the one that is being admitted with its contribution counted.
    """

    version: int = 0
    clocks: Mapping[int, int] = field(default_factory=dict)
    held: tuple[Meta, ...] = ()

    def staleness(self, meta: Meta) -> int:
        """Updates of the centre since the version a contribution was made at."""
        return self.version - meta.version


@runtime_checkable
class Schedule(Protocol):
    """When.

    Laws (`tightwire.testing.schedules`): pure; a contribution that nobody else can follow is not held for ever;
    what is due depends on the clock alone.
    """

    @property
    def lockstep(self) -> bool:
        """True if all workers exchange at the same clock, as collectives need."""
        ...

    def due(self, clock: int) -> Due:
        """What the worker does after its step number ``clock`` (from 0)."""
        ...

    def admit(self, view: View, meta: Meta) -> Verdict:
        """What the shard does with a contribution."""
        ...

    def serve(self, view: View, meta: Meta) -> bool:
        """Whether the shard answers this worker's read now."""
        ...


@runtime_checkable
class Gathers(Protocol):
    """A schedule that applies only some of what is held together, and leaves the rest for a later update."""

    def joins(self, held: Meta, meta: Meta) -> bool:
        """Whether a held contribution belongs to the update that ``meta`` completes."""
        ...


@runtime_checkable
class Caches(Protocol):
    """A schedule under which a worker may go on with a copy that it read before."""

    def fresh(self, clock: int, read: int) -> bool:
        """Whether a copy that holds everybody's steps before ``read`` is good enough at ``clock``."""
        ...
