"""The centre's end of a spring: c ← c + α·(x − c), with α = β/P.

Two forms of the same move. `spring` is sent the displacement c − x that a worker computed from a centre it had just
read (Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD. NIPS 2015); `tow` is sent the position x and
takes the displacement itself, so that nothing can come between (You, Buluç, Demmel: SC 2017). The worker's end is
`adopt.elastic`; both ends move by the same force, so Σ x + c is conserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.rule import Kind
from tightwire.algebra.tensors import Bucket, State
from tightwire.algebra.world import At
from tightwire.rules.bodies import in_full, keeps_nothing, mean


@dataclass(frozen=True)
class Spring:
    """Takes displacements."""

    beta: float = 0.9
    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    weigh = in_full
    init = keeps_nothing

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        """C ← c − (β/P)·Σ(c − x)."""
        shared.flat.sub_(total.flat, alpha=self.beta / at.world.size)


@dataclass(frozen=True)
class Tow:
    """Takes positions, one at a time; of several that come together it takes the mean."""

    beta: float = 0.9
    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "position"
    momentum: ClassVar[float] = 0.0

    weigh = mean
    init = keeps_nothing

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        """C ← c + (β/P)·(x − c)."""
        shared.flat.lerp_(total.flat, self.beta / at.world.size)


def spring(beta: float = 0.9) -> Spring:
    """Be pulled by displacements."""
    return Spring(beta)


def tow(beta: float = 0.9) -> Tow:
    """Be pulled towards positions."""
    return Tow(beta)


examples = (spring(), tow(), tow(0.4))
