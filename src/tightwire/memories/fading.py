"""Error feedback that fades: what was not sent is added to the next gradient, less a little each time.

    value = β·r + g;   r ← value − sent

The memory of DeMo (Peng, Quesnelle, Kingma, arXiv 2411.19870, β = 0.999) and SparseLoCo (Sarfi, Thérien, Lidin,
Belilovsky, arXiv 2508.15706, β = 0.95): an average of past gradients from which what was sent is taken out, so that it
serves as momentum.

At each step value = sent + owed, as for `residual`. From one step to the next 1 − β of what is owed is forgotten, so
that the sum over steps, given = sent + owed, does not hold: a coordinate that is never sent settles at its mean
gradient times 1/(1 − β), instead of growing without end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tightwire.algebra.codec import Sent
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.memory import bucket_of, give_back_
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At


@dataclass(frozen=True)
class Fading:
    """Keep a share of the rest and send it later."""

    decay: float = 0.95
    keeps: ClassVar[bool] = True
    momentum: ClassVar[float] = 0.0
    listens: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise RecipeError(f"fading(decay={self.decay}): the share that is kept lies above 0 and at most at 1")

    def init(self, spec: Spec) -> State:
        """Nothing is owed yet."""
        return {"residual": Bucket.zeros(spec)}

    def before(self, x: Bucket, state: State, at: At) -> Bucket:
        """R ← β·r + x; send r."""
        owed = bucket_of(state, "residual")
        owed.flat.mul_(self.decay).add_(x.flat)
        return owed

    def after(self, value: Bucket, sent: Sent, received: Bucket, state: State, at: At) -> None:
        """R ← r − sent."""
        sent.subtract_from_(bucket_of(state, "residual"))

    def refund(self, sent: Sent, state: State) -> None:
        """R ← r + sent."""
        give_back_(bucket_of(state, "residual"), sent)

    def owed(self, state: State) -> Mapping[str, Tensor]:
        """R."""
        return state["residual"]


def fading(decay: float = 0.95) -> Fading:
    """Error feedback of which ``decay`` is kept from step to step."""
    return Fading(decay)


examples = (fading(), fading(0.5))
