"""Your optimizer with a momentum that the recipe prescribes, in either seat.

    heavy ball    v ← μ·v + g;   w ← w − η·v
    Nesterov      v ← μ·v + g;   w ← w − η·(g + μ·v)        w is the look-ahead point that gradients are taken at

The velocity is `torch.optim.SGD`'s own: only its settings are fixed while it steps. An optimizer that has no momentum
to set is refused, and so is one that brings another momentum of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.knob import Knob
from tightwire.algebra.rule import Kind
from tightwire.rules.bodies import factor_now, keeps_nothing, mean, never_called, unchanged


@dataclass(frozen=True)
class WithMomentum:
    """The seat of the user's optimizer, its momentum set."""

    momentum: float = 0.9
    form: Literal["heavy-ball", "nesterov"] = "heavy-ball"
    scale: Knob = 1.0
    yours: ClassVar[bool] = True
    accepts: ClassVar[Kind] = "direction"

    weigh = mean
    init = keeps_nothing
    rate = factor_now
    prepare_ = unchanged
    step_ = never_called

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise RecipeError(f"momentum={self.momentum}: momentum is at least 0 and below 1")

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the optimizer is set to."""
        return {"momentum": self.momentum, "nesterov": self.form == "nesterov" and self.momentum > 0, "dampening": 0}


def with_momentum(momentum: float = 0.9, *, scale: Knob = 1.0) -> WithMomentum:
    """Your optimizer with heavy-ball momentum."""
    return WithMomentum(momentum, "heavy-ball", scale)


def with_nesterov(momentum: float = 0.9, *, scale: Knob = 1.0) -> WithMomentum:
    """Your optimizer with Nesterov momentum."""
    return WithMomentum(momentum, "nesterov", scale)


examples = (with_momentum(), with_nesterov(0.5), with_momentum(0.0))
