"""Your own data set, as ``module:function``.

The function returns a `Data`, or (train, test), each a data set of (input, label) or a pair of tensors. Of the latter,
inputs must be as the model takes them: floats, or (for a language task) int64 tokens with labels of the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from tightwire.data.errors import DataError
from tightwire.data.rows import Samples, labels_of
from tightwire.data.values import Data, Task


def yours(name: str, options: Mapping[str, Any]) -> Data:
    """What the function returns when called with the options, made a `Data`."""
    made = _function(name)(**options)
    if isinstance(made, Data):
        return made
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise DataError(f"{name} returned a {type(made).__name__}; it must return a Data or (train, test)")
    train, test = (_dataset(part, f"{which} of {name}") for part, which in zip(made, ("train", "test"), strict=True))
    x, y = train[0]
    labels = torch.cat([labels_of(part).flatten() for part in (train, test)])
    if labels.is_floating_point() or labels.min() < 0:
        raise DataError(f"labels of {name} must be whole numbers from 0 on; return a Data to say what they are")
    task: Task = "language" if x.dtype == torch.int64 and getattr(y, "shape", None) == x.shape else "classify"
    if task == "classify" and not x.is_floating_point():
        raise DataError(f"inputs of {name} are {x.dtype}; make them floats, such as x / 255")
    return Data(name, train, test, tuple(x.shape), int(labels.max()) + 1, task)


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    try:
        found = import_module(module)
    except ImportError as error:
        raise DataError(
            f"{module} cannot be imported ({error}); install it, or put its folder on PYTHONPATH (PYTHONPATH=.)"
        ) from error
    except (ValueError, TypeError) as error:
        raise DataError(f"{name!r} is not module:function, such as my_data:load") from error
    if not callable(getattr(found, function, None)):
        raise DataError(f"module {module} has no function {function!r}; write it, or name another")
    return getattr(found, function)


def _dataset(part: Any, what: str) -> Any:
    if isinstance(part, tuple | list) and len(part) == 2 and all(isinstance(one, Tensor) for one in part):
        x, y = part
        if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
            raise DataError(f"{what} has inputs {tuple(x.shape)} and labels {tuple(y.shape)}; give one label an input")
        part = Samples(x, y)
    if not hasattr(part, "__getitem__") or not hasattr(part, "__len__"):
        raise DataError(f"{what} is a {type(part).__name__}; it must be a data set with a length, or (x, y)")
    if len(part) == 0:
        raise DataError(f"{what} is empty; return at least one sample")
    first = part[0]
    if not isinstance(first, tuple | list) or len(first) != 2 or not isinstance(first[0], Tensor):
        raise DataError(f"a sample of {what} is a {type(first).__name__}; it must be (input tensor, label)")
    return part
