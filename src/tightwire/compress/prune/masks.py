"""What is pruned stays zero while an optimizer works.

    gradient ← mask · gradient     before every step
    w, momentum, Adam's moments ← mask · …     whenever the mask changes

From there no optimizer of torch moves a pruned weight: with neither gradient nor momentum, all that is left is weight
decay, which moves zero to zero. Han, Pool, Tran, Dally: Learning both Weights and Connections. NIPS 2015, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tightwire.compress.errors import CompressError

_PRUNABLE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def prunable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of all linear and convolutional layers, by name; biases and norms are few and stay."""
    found = {f"{name}.weight" if name else "weight" for name, m in model.named_modules() if isinstance(m, _PRUNABLE)}
    return {name: parameter for name, parameter in model.named_parameters() if name in found}


class Masks:
    """The masks of some parameters of a model, by name, and the keeping of them."""

    def __init__(self, model: nn.Module, masks: Mapping[str, Tensor]) -> None:
        self._parameters = dict(model.named_parameters())
        self._masks: dict[str, Tensor] = {}
        for name, mask in masks.items():
            if name not in self._parameters:
                raise CompressError(f"the model has no parameter {name!r} to mask")
            if mask.shape != self._parameters[name].shape:
                shape = tuple(self._parameters[name].shape)
                raise CompressError(f"the mask of {name} has shape {tuple(mask.shape)}, the weight {shape}")
            own = torch.empty_like(self._parameters[name], requires_grad=False)
            self._masks[name] = own.copy_(mask != 0)  # a number for each weight, for the loops over many tensors

    @property
    def masks(self) -> dict[str, Tensor]:
        """Every mask by name."""
        return {name: mask != 0 for name, mask in self._masks.items()}

    def change_(self, masks: Mapping[str, Tensor]) -> None:
        """Other masks of the same parameters, in the same memory."""
        for name, mask in masks.items():
            self._masks[name].copy_(mask != 0)

    @torch.no_grad()
    def clear_(self, optimizer: Optimizer | None = None) -> None:
        """Zero pruned weights, and whatever the optimizer remembers of them."""
        for name, mask in self._masks.items():
            parameter = self._parameters[name]
            parameter.mul_(mask)
            for kept in _remembered(optimizer, parameter):
                kept.mul_(mask)

    @torch.no_grad()
    def mask_gradients_(self) -> None:
        """Zero the gradients of pruned weights."""
        pairs = [(g, m) for n, m in self._masks.items() if (g := self._parameters[n].grad) is not None]
        if pairs:
            torch._foreach_mul_([gradient for gradient, _ in pairs], [mask for _, mask in pairs])


def _remembered(optimizer: Optimizer | None, parameter: Tensor) -> list[Tensor]:
    state: dict[str, Any] = optimizer.state.get(parameter, {}) if optimizer is not None else {}
    return [kept for kept in state.values() if isinstance(kept, Tensor) and kept.shape == parameter.shape]


@contextmanager
def hold(model: nn.Module, masks: Mapping[str, Tensor], optimizer: Optimizer) -> Iterator[Masks]:
    """Inside the block, pruned weights of ``model`` stay exactly zero under ``optimizer``."""
    held = Masks(model, masks)
    held.clear_(optimizer)
    hook = optimizer.register_step_pre_hook(lambda *_: held.mask_gradients_())
    try:
        yield held
    finally:
        hook.remove()


def density_of(masks: Mapping[str, Tensor]) -> float:
    """The share of weights that all masks together keep.

    >>> density_of({"a": torch.tensor([True, False]), "b": torch.tensor([False, False])})
    0.25
    """
    positions = sum(prod(mask.shape) for mask in masks.values())
    return sum(int(mask.sum()) for mask in masks.values()) / positions if positions else 0.0
