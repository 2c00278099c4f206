"""Error feedback: what was not sent is added to the next gradient.

    value = r + g;   r ← value − sent                        against="sent"
    value = r + g;   r ← value − (1/P)·Σ_k sent_k            against="received"

Both conserve the sum over workers of what was given. The first is Seide et al. 2014 and everybody since; the second is
PowerSGD's, whose error is taken against the reconstruction that all workers received. What waits for long is not to be
repeated when it arrives: ``alone`` refuses optimizers with a momentum of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tightwire.algebra.codec import Sent
from tightwire.algebra.memory import bucket_of, give_back_
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At


@dataclass(frozen=True)
class Residual:
    """Keep the rest and send it later."""

    against: Literal["sent", "received"] = "sent"
    alone: bool = False
    keeps: ClassVar[bool] = True
    momentum: ClassVar[float] = 0.0

    @property
    def listens(self) -> bool:
        """Only the second form looks at what came back."""
        return self.against == "received"

    def init(self, spec: Spec) -> State:
        """Nothing is owed yet."""
        return {"residual": Bucket.zeros(spec)}

    def before(self, x: Bucket, state: State, at: At) -> Bucket:
        """R ← r + x; send r."""
        owed = bucket_of(state, "residual")
        owed.flat.add_(x.flat)
        return owed

    def after(self, value: Bucket, sent: Sent, received: Bucket, state: State, at: At) -> None:
        """R ← r − sent, or r − received/P."""
        if self.against == "sent":
            sent.subtract_from_(bucket_of(state, "residual"))
        else:
            bucket_of(state, "residual").flat.sub_(received.flat, alpha=1 / at.world.size)

    def refund(self, sent: Sent, state: State) -> None:
        """R ← r + sent."""
        give_back_(bucket_of(state, "residual"), sent)

    def owed(self, state: State) -> Mapping[str, Tensor]:
        """R."""
        return state["residual"]


def residual(against: Literal["sent", "received"] = "sent", *, alone: bool = False) -> Residual:
    """Error feedback; ``alone``, without momentum beside it."""
    return Residual(against, alone)


examples = (residual(), residual("received"))
