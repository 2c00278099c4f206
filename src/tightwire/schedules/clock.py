"""Schedules that look at clocks only: every step, every tau steps, or whenever a worker gets there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.schedule import Due, Meta, Verdict, View


@dataclass(frozen=True)
class Every:
    """All workers exchange in each ``tau``-th step, together, after or before that step's local move.

    >>> [Every(3).due(clock).push for clock in range(6)]
    [False, False, True, False, False, True]
    """

    tau: int = 1
    order: Literal["after_local", "before_local"] = "after_local"
    lockstep: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.tau < 1:
            raise RecipeError(f"every(tau={self.tau}): the period is at least one step")

    def due(self, clock: int) -> Due:
        """In steps tau−1, 2·tau−1, …"""
        now = (clock + 1) % self.tau == 0
        return Due(push=now, pull=now, before_local=self.order == "before_local")

    def admit(self, view: View, meta: Meta) -> Verdict:
        """A server holds contributions until every worker's is there."""
        here = {held.worker for held in view.held} | {meta.worker}
        return Verdict.APPLY if here >= set(view.clocks) else Verdict.HOLD

    def serve(self, view: View, meta: Meta) -> bool:
        """A worker reads the centre once its own contribution is inside."""
        return all(held.worker != meta.worker for held in view.held)


@dataclass(frozen=True)
class AtEnd:
    """Workers never exchange while they train; the end of the run brings them together."""

    lockstep: ClassVar[bool] = True

    def due(self, clock: int) -> Due:
        """Never."""
        return Due(push=False, pull=False)

    def admit(self, view: View, meta: Meta) -> Verdict:
        """With everybody's."""
        return Every().admit(view, meta)

    def serve(self, view: View, meta: Meta) -> bool:
        """Once one's own is inside."""
        return Every().serve(view, meta)


@dataclass(frozen=True)
class Asynchronous:
    """Each worker pushes and fetches at its own pace; whatever arrives is applied at once.

    >>> [Asynchronous(push=2, fetch=1).due(clock) for clock in range(2)]
    [Due(push=False, pull=True, before_local=False), Due(push=True, pull=True, before_local=False)]
    """

    push: int = 1
    fetch: int = 1
    order: Literal["after_local", "before_local"] = "after_local"
    lockstep: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.push < 1 or self.fetch < 1:
            raise RecipeError(f"asynchronous(push={self.push}, fetch={self.fetch}): both periods are at least one step")

    def due(self, clock: int) -> Due:
        """In every ``push``-th and ``fetch``-th step, after or before its local move."""
        before = self.order == "before_local"
        return Due(push=(clock + 1) % self.push == 0, pull=(clock + 1) % self.fetch == 0, before_local=before)

    def admit(self, view: View, meta: Meta) -> Verdict:
        """At once."""
        return Verdict.APPLY

    def serve(self, view: View, meta: Meta) -> bool:
        """At once."""
        return True


def every_step() -> Every:
    """Bulk-synchronous: an exchange after each step."""
    return Every(1)


def every(tau: int, order: Literal["after_local", "before_local"] = "after_local") -> Every:
    """An exchange in each ``tau``-th step, after or before the local move."""
    return Every(tau, order)


def at_end() -> AtEnd:
    """One exchange, when training is over."""
    return AtEnd()


def asynchronous(
    *, push: int = 1, fetch: int = 1, order: Literal["after_local", "before_local"] = "after_local"
) -> Asynchronous:
    """No waiting: push and fetch every so many own steps, after or before the local move."""
    return Asynchronous(push, fetch, order)


examples = (
    every_step(), every(5), every(2, "before_local"), at_end(), asynchronous(), asynchronous(push=3, fetch=2),
    asynchronous(push=2, fetch=2, order="before_local"),
)  # fmt: skip
