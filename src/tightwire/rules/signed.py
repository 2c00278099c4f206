"""Your optimizer steps on the sign of what came back: every coordinate moves by the learning rate, whatever its size.

    w ← w − η·sign(Σ_k x_k)

Bernstein, Wang, Azizzadenesheli, Anandkumar: signSGD. ICML 2018, arXiv 1802.04434; DeMo ends its step this way too
(Peng, Quesnelle, Kingma, arXiv 2411.19870). sign(0) = 0. Weight decay and momentum stay your optimizer's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from tightwire.algebra.knob import Knob
from tightwire.algebra.rule import Kind
from tightwire.rules.bodies import factor_now, keeps_nothing, mean, never_called


@dataclass(frozen=True)
class Signed:
    """The user's optimizer, on signs."""

    scale: Knob = 1.0
    yours: ClassVar[bool] = True
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    weigh = mean
    init = keeps_nothing
    rate = factor_now
    step_ = never_called

    def prepare_(self, weight: Tensor, gradient: Tensor, group: Mapping[str, Any]) -> None:
        """G ← sign(g)."""
        gradient.sign_()


def signed(scale: Knob = 1.0) -> Signed:
    """Your optimizer, on the signs of gradients; ``scale`` is a factor on its learning rates."""
    return Signed(scale)


examples = (signed(),)
