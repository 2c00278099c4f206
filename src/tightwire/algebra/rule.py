"""The axes around the shared copy: `local`, `send`, `center`, `adopt`.

    worker copy x ── local ──▶ x' ── send ──▶ … wire … ──▶ center moves c ── adopt ──▶ worker copy

Two sign rules hold everywhere: what travels as a *direction* is old − new, so a centre always subtracts; and the
weight of a contribution (sum, mean, staleness) is the rule's, never the link's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor

from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At

Kind = Literal["direction", "position"]
"""A ``direction`` is subtracted from the centre; a ``position`` is a candidate for the centre itself."""


@runtime_checkable
class Signal(Protocol):
    """The `send` axis: what travels."""

    @property
    def kind(self) -> Kind:
        """Direction or position."""
        ...

    @property
    def when(self) -> Literal["backward", "after_local"]:
        """Gradients exist during the backward pass; everything else after the local step."""
        ...

    @property
    def needs_center(self) -> bool:
        """True if the worker must keep its own copy of the centre to compute this."""
        ...

    def fill_(self, x: Tensor, weight: Tensor, center: Tensor | None, scale: float) -> None:
        """X ← scale · signal of one tensor, for signals that exist after the local step."""
        ...


@runtime_checkable
class Rule(Protocol):
    """The `center` axis: how the shared copy moves.

    Laws (`tightwire.testing.rules`): a step along +d moves the centre by −d·weight; nothing sent, nothing moved;
    state survives a checkpoint.
    """

    @property
    def yours(self) -> bool:
        """True if this seat is filled by the user's optimizer."""
        ...

    @property
    def accepts(self) -> Kind:
        """Which kind of signal this rule can use."""
        ...

    @property
    def momentum(self) -> float:
        """Momentum applied here."""
        ...

    def weigh(self, staleness: int, together: int) -> float:
        """The weight of one contribution, ``staleness`` updates old, among those applied ``together``."""
        ...

    def init(self, spec: Spec) -> State:
        """State before the first update."""
        ...

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        """Move the shared copy by the weighed sum. A position may arrive in the shared copy's own memory."""
        ...


@runtime_checkable
class Seat(Protocol):
    """A rule (or local step) whose seat is the user's optimizer: what it does to gradients and rates on the way in."""

    def rate(self, at: At) -> float:
        """A factor on the optimizer's learning rates now."""
        ...

    def prepare_(self, weight: Tensor, gradient: Tensor, group: Mapping[str, Any]) -> None:
        """Change one gradient in place before the optimizer, whose settings are ``group``, steps on it."""
        ...


@runtime_checkable
class Adopt(Protocol):
    """The `adopt` axis: how a worker takes the result."""

    @property
    def looks(self) -> Literal["before", "after"]:
        """Whether the worker moves towards the centre as it was or as it is after the centre's own move."""
        ...

    @property
    def momentum(self) -> Literal["keep", "reset"]:
        """What becomes of the worker's optimizer state."""
        ...

    def adopt_(self, weight: Tensor, center: Tensor, at: At) -> None:
        """Move one of the worker's tensors."""
        ...


@runtime_checkable
class Local(Protocol):
    """The `local` axis: how a worker moves between exchanges."""

    @property
    def yours(self) -> bool:
        """True if this seat is filled by the user's optimizer."""
        ...


@runtime_checkable
class Measures(Protocol):
    """A rule that trusts a contribution by how far the centre has moved since its worker read it."""

    def trust(self, moved_squared: float, lr: float) -> float:
        """A factor on the weight, at most 1, from ‖c − c_read‖² and the worker's learning rate."""
        ...


@runtime_checkable
class Sets(Protocol):
    """A seat that fixes some of the optimizer's settings."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What every group of the optimizer is set to while it steps."""
        ...


@runtime_checkable
class Rebases(Protocol):
    """An adoption that keeps what the worker moved and has not sent yet."""

    def rebase_(self, weight: Tensor, reference: Tensor, center: Tensor, at: At) -> None:
        """Move one tensor from beside ``reference``, the centre as it was known, to beside ``center``."""
        ...
