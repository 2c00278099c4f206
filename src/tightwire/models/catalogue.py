"""`make`: a network by name."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from tightwire.models.errors import ModelError, of_kind
from tightwire.models.names import describe

if TYPE_CHECKING:
    from torch import nn


def make(name: str, *, inputs: tuple[int, ...], classes: int, **options: Any) -> nn.Module:
    """A network of the catalogue for inputs of a shape, or your own as ``module:function``.

    ``options`` are those of the network; weights are drawn from torch's global generator.

        mlp                          hidden=(128, 64)
        dnn7                         activation="sigmoid" | "tanh" | "relu", width=2048
        resnet20, resnet56           block="basic" | "bottleneck", shortcut="pad" | "project", last_gamma=1.0
        resnet18, resnet50           stem="auto" | "large" | "small", last_gamma=1.0
        vgg16                        norm="none" | "batch", width=1.0
        mobilenet-v2                 dropout=0.2
        lstm-lm                      width=1500, layers=2, dropout=0.65

    >>> [type(layer).__name__ for layer in make("mlp", inputs=(64,), classes=10)]
    ['Flatten', 'Linear', 'ReLU', 'Linear', 'ReLU', 'Linear']
    """
    if not isinstance(classes, int) or classes < 1 or not inputs or min(inputs) < 1:
        raise ModelError(f"inputs={inputs} and classes={classes} must be whole numbers of at least 1")
    if ":" in name:
        return _yours(name, inputs=tuple(inputs), classes=classes, **options)
    module, function = describe(name).maker.split(":")
    maker = getattr(import_module(module), function)
    known = {key: p.default for key, p in signature(maker).parameters.items() if p.kind is Parameter.KEYWORD_ONLY}
    for option, value in options.items():
        if option not in known:
            raise ModelError(f"{name} has no option {option!r}; it has {', '.join(known) or 'none'}")
        of_kind(option, value, known[option])
    model: nn.Module = maker(tuple(inputs), classes, **options)
    return model


def _yours(name: str, **arguments: Any) -> nn.Module:
    """What the function returns; it is called with ``inputs``, ``classes`` and the options."""
    from torch import nn  # noqa: PLC0415 -- the command line lists names without torch

    module, _, function = name.partition(":")
    try:
        found = import_module(module)
    except ImportError as error:
        raise ModelError(
            f"{module} cannot be imported ({error}); install it, or put its folder on PYTHONPATH (PYTHONPATH=.)"
        ) from error
    except (ValueError, TypeError) as error:
        raise ModelError(f"{name!r} is not module:function, such as my_models:small") from error
    maker = getattr(found, function, None)
    if not callable(maker):
        raise ModelError(f"module {module} has no function {function!r}; write it, or name another")
    try:
        signature(maker).bind(**arguments)
    except TypeError as error:
        raise ModelError(f"{name} must take inputs, classes and its options as keywords: {error}") from error
    model = maker(**arguments)
    if not isinstance(model, nn.Module):
        raise ModelError(f"{name} returned a {type(model).__name__}; it must return an nn.Module")
    return model
