"""Schedules that let workers run apart, but not far: the fast ones wait in their read, never in their push.

    SSP             every push is applied at once; a read at clock c waits until everybody has reached c − s
    bounded delay   pushes of one clock are one update; a read at clock c waits until update c − d is in

Ho et al.: More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server. NIPS 2013.
Li et al.: Scaling Distributed Machine Learning with the Parameter Server. OSDI 2014.
A worker's clock is the number of steps it has pushed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.schedule import Due, Meta, Verdict, View


@dataclass(frozen=True)
class Ssp:
    """Stale synchronous parallel: what a worker reads at clock c holds everybody's steps before c − s, and its own.

    >>> view = View(clocks={0: 3, 1: 1})
    >>> [Ssp(s).serve(view, Meta(0, clock=2)) for s in (1, 2)]
    [False, True]
    """

    staleness: int = 0
    lockstep: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.staleness < 0:
            raise RecipeError(f"ssp(staleness={self.staleness}): workers may run 0 or more clocks apart")

    def due(self, clock: int) -> Due:
        """Every step."""
        return Due(push=True, pull=True)

    def admit(self, view: View, meta: Meta) -> Verdict:
        """At once: steps are added, and addition does not mind the order."""
        return Verdict.APPLY

    def serve(self, view: View, meta: Meta) -> bool:
        """Once the slowest has come near enough."""
        return _slowest(view, meta) >= meta.clock + 1 - self.staleness

    def fresh(self, clock: int, read: int) -> bool:
        """A copy may be ``staleness`` clocks old."""
        return read >= clock - self.staleness


@dataclass(frozen=True)
class BoundedDelay:
    """The pushes of one clock are one update, and a worker starts step t once update t − 1 − d is in.

    With delay 0 this is lockstep. No gradient is ever more than ``delay`` updates old.
    """

    delay: int = 0
    lockstep: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.delay < 0:
            raise RecipeError(f"bounded_delay({self.delay}): a task waits for those 0 or more before it")

    def due(self, clock: int) -> Due:
        """Every step."""
        return Due(push=True, pull=True)

    def admit(self, view: View, meta: Meta) -> Verdict:
        """With everybody's of the same clock."""
        return Verdict.APPLY if all(clock > meta.clock for clock in view.clocks.values()) else Verdict.HOLD

    def joins(self, held: Meta, meta: Meta) -> bool:
        """Only contributions of the same clock are added up."""
        return held.clock == meta.clock

    def serve(self, view: View, meta: Meta) -> bool:
        """Once all tasks that started more than ``delay`` before the next one are finished."""
        return _slowest(view, meta) >= meta.clock + 1 - self.delay


def _slowest(view: View, meta: Meta) -> int:
    return min(view.clocks.values(), default=meta.clock + 1)


def ssp(staleness: int = 0) -> Ssp:
    """Workers at most ``staleness`` clocks apart."""
    return Ssp(staleness)


def bounded_delay(delay: int = 0) -> BoundedDelay:
    """Updates clock by clock, workers at most ``delay`` ahead of them."""
    return BoundedDelay(delay)


examples = (ssp(), ssp(2), bounded_delay(), bounded_delay(2))
