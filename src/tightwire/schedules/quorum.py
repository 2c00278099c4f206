"""Schedules of a server that waits for some contributions, not for all.

    n-softsync   an update after ⌊λ/n⌋ contributions, from anybody; nobody waits
    collect      an update after B contributions, from anybody; nobody waits; the too old are dropped
    backups      an update after λ − b contributions of λ workers, all made at this very version; the late are dropped

Gupta, Zhang, Wang: Model Accuracy and Runtime Tradeoff in Distributed Deep Learning (Rudra). ICDM 2016.
Lian, Huang, Li, Liu: Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization. NIPS 2015.
Chen, Pan, Monga, Bengio, Jozefowicz: Revisiting Distributed Synchronous SGD. arXiv 1604.00981, 2016.
λ is the number of workers that take part now, so a quorum shrinks when workers leave and nothing is held for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.schedule import Due, Meta, Verdict, View


@dataclass(frozen=True)
class SoftSync:
    """An update after ⌊λ/n⌋ contributions: n updates while every worker pushes once.

    >>> view = View(clocks=dict.fromkeys(range(4), 0), held=(Meta(0, 0),))
    >>> [SoftSync(n).admit(view, Meta(1, 0)).value for n in (1, 2, 4)]
    ['hold', 'apply', 'apply']
    """

    n: int = 1
    lockstep: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.n < 1:
            raise RecipeError(f"softsync({self.n}): the server waits for a whole fraction of the workers; give n ≥ 1")

    def due(self, clock: int) -> Due:
        """Every step."""
        return Due(push=True, pull=True)

    def admit(self, view: View, meta: Meta) -> Verdict:
        """When enough are there, whoever they are from: the same worker may appear twice."""
        quorum = max(1, len(view.clocks) // self.n)
        return Verdict.APPLY if len(view.held) + 1 >= quorum else Verdict.HOLD

    def serve(self, view: View, meta: Meta) -> bool:
        """At once, also where one's own contribution is still held."""
        return True


@dataclass(frozen=True)
class Collect:
    """An update after ``together`` contributions from anybody; one more than ``bound`` updates old is dropped."""

    together: int = 1
    bound: int | None = None
    lockstep: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.together < 1 or (self.bound is not None and self.bound < 0):
            raise RecipeError(
                f"collect({self.together}, bound={self.bound}): an update takes at least one contribution, at least 0 "
                "updates old"
            )

    def due(self, clock: int) -> Due:
        """Every step."""
        return Due(push=True, pull=True)

    def admit(self, view: View, meta: Meta) -> Verdict:
        """When enough are there and not too old. Whoever waits with a full house has left: no more will come."""
        if self.bound is not None and view.staleness(meta) > self.bound:
            return Verdict.DROP
        quorum = max(1, min(self.together, len(view.clocks)))
        return Verdict.APPLY if len(view.held) + 1 >= quorum else Verdict.HOLD

    def serve(self, view: View, meta: Meta) -> bool:
        """At once."""
        return True


@dataclass(frozen=True)
class Backups:
    """The first λ − ``spare`` gradients made at this version are the step; the others come too late and are dropped.

    A worker whose gradient is in waits for the step, so no worker is counted twice; one that was late goes on at once.
    """

    spare: int = 1
    lockstep: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.spare < 0:
            raise RecipeError(f"backups({self.spare}): there are 0 or more spare workers")

    def due(self, clock: int) -> Due:
        """Every step."""
        return Due(push=True, pull=True)

    def admit(self, view: View, meta: Meta) -> Verdict:
        """Fresh ones until there are enough; late ones never."""
        if view.staleness(meta) > 0:
            return Verdict.DROP
        needed = max(1, len(view.clocks) - self.spare)
        return Verdict.APPLY if len(view.held) + 1 >= needed else Verdict.HOLD

    def serve(self, view: View, meta: Meta) -> bool:
        """Once one's own contribution is inside, or has been dropped."""
        return all(held.worker != meta.worker for held in view.held)


def softsync(n: int = 1) -> SoftSync:
    """``n`` updates a round."""
    return SoftSync(n)


def collect(together: int = 1, *, bound: int | None = None) -> Collect:
    """``together`` contributions an update, none more than ``bound`` updates old."""
    return Collect(together, bound)


def backups(spare: int = 1) -> Backups:
    """All but ``spare`` workers are waited for."""
    return Backups(spare)


examples = (softsync(), softsync(2), softsync(30), collect(), collect(2), collect(2, bound=3), backups(0), backups(1))
