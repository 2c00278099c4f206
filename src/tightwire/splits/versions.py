"""Which weights a backward pass sees when they were updated since its forward pass.

Autograd saves the tensors a backward pass will need and refuses to run if one was changed since. These contexts wrap a
forward pass and decide what is kept instead:

    current    the tensors themselves: activations as they were, weights as they are by then (layer-wise)
    stashed    a copy of every weight: forward and backward see the same version (PipeDream)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Module


def keep_versions(module: Module, versions: Literal["current", "stashed"]) -> AbstractContextManager[object]:
    """Wrap a forward pass of ``module`` whose backward pass may come after updates."""
    if versions == "current":
        return saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)
    weights = {p.untyped_storage().data_ptr() for p in module.parameters()}

    def stash(tensor: Tensor) -> Tensor:
        return tensor.detach().clone() if tensor.untyped_storage().data_ptr() in weights else tensor

    return saved_tensors_hooks(stash, lambda tensor: tensor)
