"""The centre takes in what the workers moved: c ← c − rate·Σ_k d_k, with d = old − new.

``over="mean"`` divides by the number of workers: with rate 1 and d = progress that is model averaging, written so that
the (small) progress may be compressed. ``over="sum"`` is the parameter server's plain addition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.rule import Kind
from tightwire.algebra.tensors import Bucket, State
from tightwire.algebra.world import At
from tightwire.rules.bodies import keeps_nothing


@dataclass(frozen=True)
class Add:
    """Takes directions."""

    rate: float = 1.0
    over: Literal["mean", "sum"] = "mean"
    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    init = keeps_nothing

    def weigh(self, staleness: int, together: int) -> float:
        """Alike, as a mean or as a sum."""
        return 1 / together if self.over == "mean" else 1.0

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        """C ← c − rate · weighted sum."""
        shared.flat.sub_(total.flat, alpha=self.rate)


def add(rate: float = 1.0, *, over: Literal["mean", "sum"] = "mean") -> Add:
    """Subtract what was sent from the centre."""
    return Add(rate, over)


examples = (add(), add(0.5, over="sum"))
