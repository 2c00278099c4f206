"""Training through uniform levels: the forward pass rounds, the gradient passes straight through.

    forward:   ŵ = s·clamp(round(w / s))        backward:   dL/dw = dL/dŵ where |w| is within the range, else 0

Bengio, Léonard, Courville: Estimating or Propagating Gradients Through Stochastic Neurons. arXiv 1308.3432; Jacob et
al.: Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference. CVPR 2018.
The step is that of the weights when training begins; pruned weights are zero, which is a level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from tightwire.compress.share.uniform import best_step, levels, round_to


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, step: float, bits: int) -> Tensor:
        ctx.save_for_backward(weight.abs() <= (levels(bits) + 0.5) * step)
        return round_to(weight, step, bits)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (inside,) = ctx.saved_tensors
        return gradients[0] * inside, None, None


class _Rounded(nn.Module):
    def __init__(self, step: float, bits: int) -> None:
        super().__init__()
        self.step, self.bits = step, bits

    def forward(self, weight: Tensor) -> Tensor:
        rounded: Tensor = _Straight.apply(weight, self.step, self.bits)  # type: ignore[no-untyped-call]
        return rounded


@contextmanager
def rounded(model: nn.Module, bits: Mapping[str, int]) -> Iterator[None]:
    """Inside the block the named weights are rounded in every forward pass; afterwards they are at their levels.

    The parameters that an optimizer trains are those of `model.parameters()` inside the block.
    """
    layers = {name: model.get_submodule(name.rpartition(".")[0]) for name in bits}
    for name, layer in layers.items():
        step = best_step(layer.weight.detach(), bits[name])  # type: ignore[operator]
        parametrize.register_parametrization(layer, "weight", _Rounded(step, bits[name]))
    try:
        yield
    finally:
        for layer in layers.values():
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
