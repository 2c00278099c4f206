"""Fully connected networks, as plain nn.Sequential: mlp, lenet-300-100, dnn7."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Literal

from torch import nn

from tightwire.models.errors import ModelError, one_of

_ACTIVATIONS: dict[str, tuple[type[nn.Module], float]] = {
    "sigmoid": (nn.Sigmoid, 4.0),
    "tanh": (nn.Tanh, 5 / 3),
    "relu": (nn.ReLU, 2**0.5),
}


def mlp(inputs: tuple[int, ...], classes: int, *, hidden: tuple[int, ...] = (128, 64)) -> nn.Sequential:
    """Flattened inputs, hidden layers with ReLU, classes."""
    if not all(isinstance(units, int) and units >= 1 for units in hidden):
        raise ModelError(f"hidden={hidden} must be whole numbers of at least 1, such as (128, 64)")
    return _dense([prod(inputs), *hidden, classes], nn.ReLU)


def lenet_300_100(inputs: tuple[int, ...], classes: int) -> nn.Sequential:
    """LeNet-300-100, with ReLU: 266,610 parameters on MNIST.

    LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document Recognition. Proc. IEEE 1998.
    """
    return _dense([prod(inputs), 300, 100, classes], nn.ReLU)


def dnn7(
    inputs: tuple[int, ...],
    classes: int,
    *,
    activation: Literal["sigmoid", "tanh", "relu"] = "sigmoid",
    width: int = 2048,
) -> nn.Sequential:
    """The acoustic model of its time: 462 inputs, seven hidden layers of 2048, one class a tied state.

    Hinton et al.: Deep Neural Networks for Acoustic Modeling in Speech Recognition. IEEE Signal Processing Mag. 2012.
    Weights are drawn as Glorot and Bengio (AISTATS 2010) have it, four times wider for sigmoids, whose mean of ½ the
    next layer's bias takes away: else seven of them in a row pass no gradient on. With tanh it can compute the same
    functions, tanh z = 2σ(2z) − 1, but activations have mean 0, which old gradients do much less harm to.
    """
    one_of("activation", activation, tuple(_ACTIVATIONS))
    if width < 1:
        raise ModelError(f"width={width} must be at least 1")
    kind, gain = _ACTIVATIONS[activation]
    model = _dense([prod(inputs), *[width] * 7, classes], kind)
    linears = [layer for layer in model if isinstance(layer, nn.Linear)]
    for layer in linears:
        nn.init.xavier_uniform_(layer.weight, gain=1.0 if layer is linears[-1] else gain)
        nn.init.zeros_(layer.bias)
        if activation == "sigmoid" and layer is not linears[0]:
            layer.bias.data.sub_(layer.weight.data.sum(1), alpha=0.5)
    return model


def _dense(sizes: Sequence[int], activation: type[nn.Module]) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])
