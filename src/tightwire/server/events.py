"""What is said to a shard and what it replies: plain values, which any link can carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from tightwire.algebra.schedule import Meta


@dataclass(frozen=True)
class Enter:
    """A worker begins, its own count of steps at ``clock``: it is counted from now on and is given the centre."""

    worker: int
    clock: int = 0


@dataclass(frozen=True)
class Leave:
    """A worker ends: nobody waits for it any more."""

    worker: int


@dataclass(frozen=True)
class Rest:
    """A worker waits for all others somewhere else: nobody waits for it until all have come there, or it pushes."""

    worker: int


@dataclass(frozen=True)
class Push:
    """A contribution, and whether the worker then wants the centre, as it was before this contribution or after it.

    ``rates`` are its optimizer's learning rates; ``unused`` names tensors it has no gradient for.
    """

    worker: int
    sequence: int
    meta: Meta
    wires: Mapping[str, Tensor]
    rates: tuple[float, ...] = ()
    pull: bool = True
    unused: frozenset[str] = frozenset()
    looks: Literal["before", "after"] = "after"


@dataclass(frozen=True)
class Pull:
    """A worker wants the centre, as soon as the schedule lets it."""

    worker: int
    meta: Meta


@dataclass(frozen=True)
class Peek:
    """Somebody wants to see the centre as it is, which changes nothing."""

    worker: int


@dataclass(frozen=True)
class Center:
    """The centre, encoded, at a version; ``dropped`` says that the push before it was not used.

    It holds everybody's steps before ``clock``, in the worker's own count.
    """

    version: int
    wires: Mapping[str, Tensor]
    dropped: bool = False
    clock: int = 0


@dataclass(frozen=True)
class Taken:
    """The push arrived."""

    version: int
    dropped: bool = False


@dataclass(frozen=True)
class Export:
    """Somebody wants everything the shard knows."""

    worker: int


@dataclass(frozen=True)
class Exported:
    """Everything the shard knows."""

    state: dict[str, Any]


@dataclass(frozen=True)
class Import:
    """Be as this state says; in a ``new_world`` workers' clocks and sequences start anew."""

    worker: int
    state: dict[str, Any]
    new_world: bool


Event = Enter | Leave | Rest | Push | Pull | Peek | Export | Import
Reply = Center | Taken | Exported
