"""What happens in a run, as frozen values. One worker's events are totally ordered by ``time_s``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened on one worker."""

    rank: int
    step: int
    time_s: float = field(default_factory=monotonic)

    def as_dict(self) -> dict[str, Any]:
        """The event as plain data, its kind included."""
        return {"event": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Joined(Event):
    """A worker took its place."""

    workers: int
    recipe: str


@dataclass(frozen=True, kw_only=True)
class Noted(Event):
    """Something a person should know."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Ready(Event):
    """The last gradient of a bucket arrived."""

    bucket: str


@dataclass(frozen=True, kw_only=True)
class Started(Event):
    """The exchange of a bucket began."""

    bucket: str


@dataclass(frozen=True, kw_only=True)
class Finished(Event):
    """The exchange of a bucket ended."""

    bucket: str


@dataclass(frozen=True, kw_only=True)
class Stepped(Event):
    """A step ended. Bytes are those of this worker since the run began."""

    loss: float | None
    tx_bytes: int
    rx_bytes: int


@dataclass(frozen=True, kw_only=True)
class Skipped(Event):
    """A step was not taken."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Switched(Event):
    """A new phase of the recipe began."""

    recipe: str


@dataclass(frozen=True, kw_only=True)
class Saved(Event):
    """A checkpoint is complete."""

    folder: str


@dataclass(frozen=True, kw_only=True)
class Restored(Event):
    """A checkpoint was loaded; ``changes`` says what a different world made different."""

    folder: str
    changes: tuple[str, ...]
