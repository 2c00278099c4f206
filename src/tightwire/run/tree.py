"""Nested state as one safetensors file and one JSON text: no pickle.

Tensors are taken out and numbered by their path; what is left is JSON. Tuples, integer keys and other things JSON would
forget are marked, so that what comes back equals what went in.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tightwire.algebra.errors import CheckpointError

_TENSOR, _TUPLE, _PAIRS = "$tensor", "$tuple", "$pairs"


def take_apart(value: Any, path: str = "") -> tuple[Any, dict[str, Tensor]]:
    """Split nested dicts, lists and tuples into JSON data and tensors.

    >>> take_apart({"a": (1, torch.ones(1))})
    ({'a': {'$tuple': [1, {'$tensor': 'a/1'}]}}, {'a/1': tensor([1.])})
    """
    tensors: dict[str, Tensor] = {}

    def walk(node: Any, at: str) -> Any:
        match node:
            case Tensor():
                tensors[at] = node.detach().to("cpu", copy=True).contiguous()
                return {_TENSOR: at}
            case dict() if all(isinstance(key, str) and not key.startswith("$") for key in node):
                return {key: walk(child, f"{at}/{key}" if at else key) for key, child in node.items()}
            case dict():
                return {_PAIRS: [[walk(key, at), walk(child, f"{at}/{key}")] for key, child in node.items()]}
            case tuple():
                return {_TUPLE: [walk(child, f"{at}/{i}") for i, child in enumerate(node)]}
            case list():
                return [walk(child, f"{at}/{i}") for i, child in enumerate(node)]
            case None | bool() | int() | float() | str():
                return node
            case _:
                raise CheckpointError(f"{at or 'state'} holds a {type(node).__name__}, which a checkpoint cannot keep")

    return walk(value, path), tensors


def put_together(data: Any, tensors: dict[str, Tensor]) -> Any:
    """The reverse of `take_apart`."""
    match data:
        case {"$tensor": str(path)}:
            if path not in tensors:
                raise CheckpointError(f"the checkpoint names a tensor {path!r} that it does not contain")
            return tensors[path]
        case {"$tuple": list(children)}:
            return tuple(put_together(child, tensors) for child in children)
        case {"$pairs": list(pairs)}:
            return {put_together(key, tensors): put_together(child, tensors) for key, child in pairs}
        case dict():
            return {key: put_together(child, tensors) for key, child in data.items()}
        case list():
            return [put_together(child, tensors) for child in data]
        case _:
            return data


def rng_state() -> dict[str, Tensor]:
    """torch's random states."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        states |= {f"cuda:{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def set_rng_state(states: dict[str, Tensor]) -> None:
    """Put torch's random states back."""
    torch.set_rng_state(states["cpu"])
    if torch.cuda.is_initialized():
        for i in range(torch.cuda.device_count()):
            if f"cuda:{i}" in states:
                torch.cuda.set_rng_state(states[f"cuda:{i}"], i)
