"""Adagrad for the centre: each coordinate has a rate of its own, which falls with what has passed through it.

    G ← G + d²;   c ← c − γ·d / (√G + ε)                    d: what a worker sent, old − new

Duchi, Hazan, Singer: Adaptive Subgradient Methods. JMLR 2011; on the server of Dean et al. (NIPS 2012), where it lets
hundreds of replicas push without diverging. The papers have no ε; ours (1e-8) leaves an untouched coordinate alone.
The scale of d cancels: γ alone says how far the centre moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.memory import bucket_of
from tightwire.algebra.rule import Kind
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.rules.bodies import in_full

_EPSILON = 1e-8


@dataclass(frozen=True)
class Adagrad:
    """Takes directions."""

    gamma: float = 0.01
    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    weigh = in_full

    def init(self, spec: Spec) -> State:
        """Nothing has passed."""
        return {"squares": Bucket.zeros(spec)}

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        """G ← G + d²; c ← c − γ·d/(√G + ε)."""
        squares = bucket_of(state, "squares").flat
        squares.addcmul_(total.flat, total.flat)
        shared.flat.addcdiv_(total.flat, squares.sqrt().add_(_EPSILON), value=-self.gamma)


def adagrad(gamma: float = 0.01) -> Adagrad:
    """Adagrad with rate ``gamma``."""
    return Adagrad(gamma)


examples = (adagrad(), adagrad(0.5))
