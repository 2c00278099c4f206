"""Forced order: worker 0, then 1, …, then 0 again, whoever is ready first.

Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD. NIPS 2015 analyse this order; You, Buluç, Demmel
(SC 2017) call it the original EASGD. It makes an asynchronous recipe deterministic, and shows what waiting costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.schedule import Due, Meta, Verdict, View


@dataclass(frozen=True)
class RoundRobin:
    """One contribution an update, in the order of ranks.

    >>> view = View(clocks={0: 0, 1: 1})
    >>> [RoundRobin().admit(view, Meta(1, clock=0)).value, RoundRobin().admit(view, Meta(0, clock=0)).value]
    ['wait', 'apply']
    """

    tau: int = 1
    order: Literal["after_local", "before_local"] = "after_local"
    lockstep: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.tau < 1:
            raise RecipeError(f"round_robin({self.tau}): the period is at least one step")

    def due(self, clock: int) -> Due:
        """In steps tau−1, 2·tau−1, …"""
        now = (clock + 1) % self.tau == 0
        return Due(push=now, pull=now, before_local=self.order == "before_local")

    def admit(self, view: View, meta: Meta) -> Verdict:
        """Not before everybody who comes first in this round."""
        mine = (meta.clock // self.tau, meta.worker)
        others = [(clock // self.tau, worker) for worker, clock in view.clocks.items() if worker != meta.worker]
        return Verdict.APPLY if all(mine < other for other in others) else Verdict.WAIT

    def serve(self, view: View, meta: Meta) -> bool:
        """At once: the turn was waited for before."""
        return True


def round_robin(tau: int = 1, order: Literal["after_local", "before_local"] = "after_local") -> RoundRobin:
    """In turn, every ``tau`` steps."""
    return RoundRobin(tau, order)


examples = (round_robin(), round_robin(3, "before_local"))
