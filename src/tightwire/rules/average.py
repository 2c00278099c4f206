"""The centre is the mean of what the workers sent: c ← (1/P)·Σ_k x_k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.rule import Kind
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At


@dataclass(frozen=True)
class Average:
    """Model averaging: takes positions."""

    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "position"
    momentum: ClassVar[float] = 0.0

    def weigh(self, staleness: int, together: int) -> float:
        """Everybody counts alike."""
        return 1 / together

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        """C ← the weighted sum."""
        if shared is not total:
            shared.flat.copy_(total.flat)


def average() -> Average:
    """The mean of all workers' weights."""
    return Average()


examples = (average(),)
