"""Where factors come from: what goes into a linear layer, and the error that comes back to its output.

    forward    y = x·Wᵀ + b       the hook keeps v = x, one row a sample
    backward   error at y         a hook on y keeps u and lays (u, v) beside the gradient's bucket (`Bucket.aside`)
               gradient of W      = uᵀ·v, and its bucket may be launched

A weight that is used twice before a step (accumulation, a shared layer) has no such factors, nor has one that several
modules hold: what is beside the bucket is taken away. A codec compares what it finds with the gradient itself, so
nothing here has to be complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from torch import Tensor, nn

from tightwire.algebra.codec import UsesFactors
from tightwire.algebra.recipe import AnyRecipe, leaves
from tightwire.algebra.tensors import Bucket, Outer
from tightwire.run.lane import Lane


class Holder(Protocol):
    """Who has the lanes: a worker, or the state of a DDP hook."""

    @property
    def recipe(self) -> AnyRecipe:
        """What is run."""
        ...

    @property
    def clock(self) -> int:
        """Steps taken."""
        ...

    @property
    def lanes(self) -> list[Lane]:
        """What the recipe is now."""
        ...


class Capture:
    """Lays the factors of linear layers beside their gradients, if a recipe's codec can use them."""

    def __init__(self, model: nn.Module, holder: Holder) -> None:
        self._holder = holder
        self._clock = -1
        self._lanes: list[Lane] = []
        self._places: dict[Tensor, tuple[Bucket, str]] = {}
        self._met: set[Tensor] = set()
        wanted = any(isinstance(leaf.recipe.up[1], UsesFactors) for leaf in leaves(holder.recipe))
        self._handles = [m.register_forward_hook(self._forward) for m in (_linear(model) if wanted else ())]

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def _forward(self, module: nn.Module, args: tuple[object, ...], out: object) -> None:
        self._look()
        weight = module._parameters["weight"]
        if weight not in self._places or not isinstance(out, Tensor) or not out.requires_grad or len(args) != 1:
            return
        assert isinstance(args[0], Tensor)
        out.register_hook(partial(self._backward, weight, args[0].detach()))

    def _backward(self, weight: Tensor, v: Tensor, u: Tensor) -> None:
        self._look()
        if weight not in self._places:
            return
        bucket, name = self._places[weight]
        if weight in self._met:
            bucket.aside.pop(name, None)
        else:
            bucket.aside[name] = Outer(u.detach().reshape(-1, u.shape[-1]), v.reshape(-1, v.shape[-1]))
        self._met.add(weight)

    def _look(self) -> None:
        """Forget the last step; learn where tensors lie when a phase has changed that."""
        holder = self._holder
        if holder.clock != self._clock:
            self._clock = holder.clock
            self._met.clear()
            for bucket, _ in self._places.values():
                bucket.aside.clear()
        if holder.lanes is not self._lanes:
            self._lanes = holder.lanes
            able = [lane for lane in self._lanes if isinstance(lane.recipe.up[1], UsesFactors)]
            parcels = [parcel for lane in able for parcel in lane.parcels]
            self._places = {tensor: (p.x, name) for p in parcels for name, tensor in p.tensors.items()}


def _linear(model: nn.Module) -> Iterator[nn.Module]:
    """Linear layers whose weight is a plain parameter of theirs alone, and which run as Python."""
    owners: dict[int, int] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    compiled = [m for m in model.modules() if hasattr(m, "_orig_mod") or m._compiled_call_impl is not None]
    inside = {id(part) for module in compiled for part in module.modules()}
    for module in model.modules():
        weight = module._parameters.get("weight") if isinstance(module, nn.Linear) else None
        if weight is not None and owners[id(weight)] == 1 and id(module) not in inside:
            yield module
