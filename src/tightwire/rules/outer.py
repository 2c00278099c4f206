"""An optimizer of our own for the centre: Nesterov momentum on the mean progress of the workers.

    B ← μ·B + Δ;   c ← c − rate·(Δ + μ·B)            Δ = (1/P)·Σ_k (c − w_k)

Douillard et al.: DiLoCo. arXiv 2311.08105, 2023 (rate 0.7, μ 0.9). With rate 1 and μ 0 it is plain averaging.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.memory import bucket_of
from tightwire.algebra.rule import Kind
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.rules.bodies import mean


@dataclass(frozen=True)
class Outer:
    """Outer Nesterov: takes directions."""

    learning_rate: float = 0.7
    momentum: float = 0.9
    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "direction"

    weigh = mean

    def init(self, spec: Spec) -> State:
        """At rest."""
        return {"velocity": Bucket.zeros(spec)}

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        """B ← μ·B + Δ; c ← c − rate·(Δ + μ·B)."""
        velocity = bucket_of(state, "velocity").flat
        velocity.mul_(self.momentum).add_(total.flat)
        shared.flat.sub_(total.flat.add(velocity, alpha=self.momentum), alpha=self.learning_rate)


def outer(learning_rate: float = 0.7, *, momentum: float = 0.9) -> Outer:
    """Outer Nesterov."""
    return Outer(learning_rate, momentum)


examples = (outer(), outer(1.0, momentum=0.0))
