"""The layers of a network as a search sees them: their order, shapes, and multiply-adds, from one forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tightwire.compress.search.units import Shape


@dataclass(frozen=True, eq=False)
class Layer:
    """One linear or convolutional layer. ``positions``: how often its kernel is applied to one example."""

    name: str
    module: nn.Linear | nn.Conv2d
    shape: Shape
    positions: int
    out_numel: int  # numbers it gives for one example

    @property
    def groups(self) -> int:
        """Of a convolution; 1 for a linear layer."""
        return self.module.groups if isinstance(self.module, nn.Conv2d) else 1

    @property
    def depthwise(self) -> bool:
        """Whether every channel is filtered for itself."""
        return self.groups > 1 and self.groups == self.shape.c == self.shape.n

    @property
    def area(self) -> int:
        """Weights between one input channel and one output channel."""
        return self.module.weight[0, 0].numel() if self.module.weight.ndim > 2 else 1

    @property
    def macs(self) -> int:
        """Multiply-adds for one example."""
        return self.positions * self.module.weight.numel()


@torch.no_grad()
def read_layers(model: nn.Module, example: Tensor) -> dict[str, Layer]:
    """Every linear and 2-D convolutional layer, in the order in which ``example`` (a batch) passes through them."""
    names = {module: name for name, module in model.named_modules()}
    found: dict[str, Layer] = {}

    def note(module: Any, args: tuple[Tensor, ...], out: Tensor) -> None:
        found.setdefault(names[module], _layer(names[module], module, args[0], out))

    hooks = [m.register_forward_hook(note) for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    was_training = model.training
    try:
        model.eval()(example)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return found


def _layer(name: str, module: nn.Linear | nn.Conv2d, x: Tensor, out: Tensor) -> Layer:
    numel = out[0].numel()
    if isinstance(module, nn.Linear):
        shape = Shape(module.out_features, module.in_features, 1, 1, 1, 1)
        return Layer(name, module, shape, numel // module.out_features, numel)
    stride, k = module.stride[0], module.kernel_size[0]
    shape = Shape(module.out_channels, module.in_channels, x.shape[-2], x.shape[-1], stride, k)
    return Layer(name, module, shape, numel // module.out_channels, numel)
