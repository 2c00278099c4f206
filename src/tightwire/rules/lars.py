"""Layer-wise adaptive rate scaling: every tensor moves in proportion to its own size.

    λ = trust·‖w‖ / (‖g‖ + β·‖w‖);   your optimizer then steps on λ·(g + β·w)          β: its weight decay

You, Gitman, Ginsburg: Large Batch Training of Convolutional Networks. arXiv 1708.03888, 2017.
Your optimizer keeps momentum, rate and decay β. Because it will add β·w by itself, it is handed λ·(g + β·w) − β·w.
One-dimensional tensors (biases, norms) and tensors that are zero take λ = trust: their own ratio would keep them at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from tightwire.algebra.knob import Knob
from tightwire.algebra.rule import Kind
from tightwire.rules.bodies import factor_now, keeps_nothing, mean, never_called


@dataclass(frozen=True)
class Lars:
    """The user's optimizer, with gradients scaled layer by layer."""

    trust: float = 0.001
    scale: Knob = 1.0
    yours: ClassVar[bool] = True
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    weigh = mean
    init = keeps_nothing
    rate = factor_now
    step_ = never_called

    def prepare_(self, weight: Tensor, gradient: Tensor, group: Mapping[str, Any]) -> None:
        """G ← λ·(g + β·w) − β·w."""
        coupled = not group.get("decoupled_weight_decay", False)  # AdamW adds no decay to the gradient
        decay = float(group.get("weight_decay") or 0.0) if coupled else 0.0
        ratio = torch.full((), self.trust, dtype=gradient.dtype, device=gradient.device)
        if weight.dim() > 1:
            weight_norm, gradient_norm = torch.linalg.vector_norm(weight), torch.linalg.vector_norm(gradient)
            moves = (weight_norm > 0) & (gradient_norm > 0)
            ratio = torch.where(moves, ratio * weight_norm / (gradient_norm + decay * weight_norm), ratio)
        gradient.add_(weight, alpha=decay).mul_(ratio).add_(weight, alpha=-decay)


def lars(trust: float = 0.001, *, scale: Knob = 1.0) -> Lars:
    """Your optimizer, with layer-wise adaptive rates."""
    return Lars(trust, scale)


examples = (lars(),)
