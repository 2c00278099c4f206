"""Momentum correction: accumulate the velocity, not the gradient, and send the largest of that.

    u ← m·u + g;     v ← v + u;       send from v            form="heavy-ball"
    u ← m·(u + g);   v ← v + u + g;   send from v            form="nesterov"
    v ← v − sent;    u ← 0 where sent                        masking="where_sent"

Lin et al.: Deep Gradient Compression. ICLR 2018, arXiv 1712.01887, equations 1–3.
Without masking, w − η·Σ_k v_k follows dense momentum SGD exactly at every step, whatever is sent when. With masking a
coordinate that was just sent loses its velocity, which damps stale directions; at density 1 that would turn momentum
SGD into plain SGD, so a dense recipe takes masking="off".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tightwire.algebra.codec import Sent
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.memory import bucket_of, give_back_
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At

Masking = Literal["where_sent", "off"]
Form = Literal["heavy-ball", "nesterov"]


@dataclass(frozen=True)
class MomentumCorrection:
    """Keep a velocity and what of its sum is still owed."""

    momentum: float = 0.9
    masking: Masking = "where_sent"
    form: Form = "heavy-ball"
    keeps: ClassVar[bool] = True
    listens: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise RecipeError(f"momentum_correction({self.momentum}): momentum is at least 0 and below 1")

    def init(self, spec: Spec) -> State:
        """At rest, owing nothing."""
        return {"velocity": Bucket.zeros(spec), "residual": Bucket.zeros(spec)}

    def before(self, x: Bucket, state: State, at: At) -> Bucket:
        """U ← m·u + x; v ← v + u; send from v; Nesterov's form likewise."""
        velocity, owed = bucket_of(state, "velocity"), bucket_of(state, "residual")
        if self.form == "heavy-ball":
            velocity.flat.mul_(self.momentum).add_(x.flat)
        else:
            velocity.flat.add_(x.flat).mul_(self.momentum)
            owed.flat.add_(x.flat)
        owed.flat.add_(velocity.flat)
        return owed

    def after(self, value: Bucket, sent: Sent, received: Bucket, state: State, at: At) -> None:
        """V ← v − sent; u ← 0 where sent."""
        sent.subtract_from_(bucket_of(state, "residual"))
        if self.masking == "where_sent":
            sent.zero_where_sent_(bucket_of(state, "velocity"))

    def refund(self, sent: Sent, state: State) -> None:
        """V ← v + sent."""
        give_back_(bucket_of(state, "residual"), sent)

    def owed(self, state: State) -> Mapping[str, Tensor]:
        """V."""
        return state["residual"]


def momentum_correction(
    momentum: float = 0.9, *, masking: Masking = "where_sent", form: Form = "heavy-ball"
) -> MomentumCorrection:
    """DGC's memory."""
    return MomentumCorrection(momentum, masking, form)


examples = (
    momentum_correction(),
    momentum_correction(0.5, masking="off"),
    momentum_correction(0.5, masking="off", form="nesterov"),
)
