"""Which weights forward and backward pass of a minibatch see when they are updated in between.

Autograd saves the tensors a backward pass will need and refuses to run if one was changed since. This context wraps a
forward pass. It may put other values into the weights while it lasts, and decides what is kept:

    current    activations as they were, weights as they are by then (layer-wise)
    stashed    the weights that the forward pass saw (PipeDream)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Module

from tightwire.algebra.split import Versions

Place: TypeAlias = tuple[int, torch.Size, tuple[int, ...], int]
"""A view of a weight: its number, size, strides and offset."""


@contextmanager
def keep_versions(module: Module, versions: Versions, values: Sequence[Tensor] | None = None) -> Iterator[None]:
    """Wrap a forward pass of ``module`` whose backward pass may come after updates.

    ``values`` are what its parameters are during the pass, in order; nobody may change them afterwards. None leaves the
    parameters as they are.
    """
    weights = list(module.parameters())
    own = [weight.data for weight in weights]
    seen = own if values is None else list(values)
    number = {value.untyped_storage().data_ptr(): index for index, value in enumerate(seen)}

    def pack(tensor: Tensor) -> Tensor | Place:
        index = number.get(tensor.untyped_storage().data_ptr())
        if index is None or (versions == "current" and values is None):
            return tensor
        if versions == "stashed":
            return tensor.detach() if values is not None else tensor.detach().clone()
        return index, tensor.size(), tensor.stride(), int(tensor.storage_offset())

    def unpack(kept: Tensor | Place) -> Tensor:
        if isinstance(kept, Tensor):
            return kept
        index, size, stride, offset = kept
        return weights[index].detach().as_strided(size, stride, offset)

    try:
        for weight, value in zip(weights, seen, strict=True):
            weight.data = value
        with saved_tensors_hooks(pack, unpack):
            yield
    finally:
        for weight, value in zip(weights, own, strict=True):
            weight.data = value
