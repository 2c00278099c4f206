"""How a shard moves its centre: by a rule of ours, or by the user's optimizer on the server's copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from tightwire.algebra.rule import Rule, Seat, Sets
from tightwire.algebra.tensors import Bucket, State
from tightwire.algebra.world import At
from tightwire.rules.yours import optimizer_like, whole_name


class Mover(Protocol):
    """Moves the centre by a weighed sum: the shard's side of the `center` axis. Nobody used ``idle`` tensors."""

    def step(
        self,
        center: Mapping[str, Bucket],
        total: Mapping[str, Bucket],
        rates: tuple[float, ...],
        idle: frozenset[str],
    ) -> None:
        """Move every bucket of the centre."""
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        ...


class OptimizerMover:
    """Steps an optimizer of the user's class and settings on parameters that are views of the centre."""

    def __init__(
        self, center: Mapping[str, Bucket], optimizer: torch.optim.Optimizer, names: Mapping[Tensor, str], seat: Seat
    ) -> None:
        self.seat = seat
        self._parameters = {name: nn.Parameter(view) for bucket in center.values() for name, view in bucket.items()}
        self.optimizer, self._groups = optimizer_like(optimizer, names, self._parameters)
        if isinstance(seat, Sets):
            for group in self.optimizer.param_groups:
                group.update(seat.settings)

    def step(
        self,
        center: Mapping[str, Bucket],
        total: Mapping[str, Bucket],
        rates: tuple[float, ...],
        idle: frozenset[str],
    ) -> None:
        """The weighed sum is the gradient; the learning rates are those of the worker that pushed last."""
        for bucket in total.values():
            for name, gradient in bucket.items():
                untouched = whole_name(name) in idle and not bool(gradient.any())
                self._parameters[name].grad = None if untouched else gradient
        if rates:
            for group, index in zip(self.optimizer.param_groups, self._groups, strict=True):
                group["lr"] = rates[index]
        for group in self.optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self.seat.prepare_(weight.data, weight.grad, group)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def groups(self) -> list[list[Any]]:
        """Each group of the worker's optimizer that has tensors here: its number, its settings, their names."""
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        return [
            [index, {key: value for key, value in group.items() if key != "params"},
             [names[id(parameter)] for parameter in group["params"]]]
            for index, group in zip(self._groups, self.optimizer.param_groups, strict=True)
        ]  # fmt: skip

    def state(self) -> dict[str, Any]:
        """The optimizer's state."""
        return {"optimizer": self.optimizer.state_dict(), "keys": self._keys()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        saved, keys = state["optimizer"], self._keys()
        if state.get("keys", keys) != keys:  # of other shards
            by_key = {key: saved["state"].get(place, {}) for place, key in enumerate(state["keys"])}
            saved = {**saved, "state": {place: by_key[key] for place, key in enumerate(keys) if by_key.get(key)}}
        if "param_groups" not in saved:
            saved = {**saved, "param_groups": self.optimizer.state_dict()["param_groups"]}
        self.optimizer.load_state_dict(saved)

    def _keys(self) -> list[str]:
        """The tensors in the order in which the optimizer numbers them."""
        return [key for _, _, keys in self.groups() for key in keys]


@dataclass
class RuleMover:
    """Moves the centre by a rule of our own."""

    rule: Rule
    states: dict[str, State]
    at: At

    def step(
        self,
        center: Mapping[str, Bucket],
        total: Mapping[str, Bucket],
        rates: tuple[float, ...],
        idle: frozenset[str],
    ) -> None:
        """One step of the rule on every bucket."""
        for label, bucket in center.items():
            self.rule.step_(bucket, total[label], self.states[label], self.at)

    def state(self) -> dict[str, Any]:
        """The rule's state, by tensor: how tensors are packed does not matter to a checkpoint."""
        merged: dict[str, dict[str, Tensor]] = {}
        for fields in self.states.values():
            for name, named in fields.items():
                merged.setdefault(name, {}).update(named)
        return {"rule": merged}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        for fields in self.states.values():
            for name, named in fields.items():
                for key, tensor in named.items():
                    tensor.copy_(state["rule"][name][key])
