"""The centre is the mean of what the workers sent: c ← (1/P)·Σ_k x_k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.rule import Kind
from tightwire.algebra.tensors import Bucket, State
from tightwire.algebra.world import At
from tightwire.rules.bodies import keeps_nothing, mean


@dataclass(frozen=True)
class Average:
    """Model averaging: takes positions."""

    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "position"
    momentum: ClassVar[float] = 0.0

    weigh = mean
    init = keeps_nothing

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        """C ← the weighted sum."""
        if shared is not total:
            shared.flat.copy_(total.flat)


def average() -> Average:
    """The mean of all workers' weights."""
    return Average()


examples = (average(),)
