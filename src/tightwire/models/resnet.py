"""Residual networks: y = ReLU(x + F(x)); an nn.Sequential of blocks.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition. CVPR 2016, arXiv 1512.03385.
He, Zhang, Ren, Sun: Identity Mappings in Deep Residual Networks. ECCV 2016, arXiv 1603.05027.

    resnet20, resnet56   section 4.2, for CIFAR-10: 3×3 convolution, 3 stages of basic blocks with 16, 32, 64 channels
                         block="bottleneck": the 2016 paper's blocks of 64, 128, 256 channels, in as many layers
    resnet18, resnet50   table 1, for ImageNet: 7×7 convolution, max-pool, 4 stages that begin with 64 channels

Where a block changes the shape, its shortcut is either padded with zero channels ("pad", the paper's option A without
parameters: the default for CIFAR-10) or a 1×1 convolution ("project", option B: always for ImageNet).
In bottleneck blocks the 3×3 convolution has the stride, as in most implementations since; the paper strides the 1×1
before it. The number of parameters is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from tightwire.models.errors import image, one_of

Shortcut: TypeAlias = Literal["pad", "project"]
Stem: TypeAlias = Literal["auto", "large", "small"]
Kind: TypeAlias = Literal["basic", "bottleneck"]
SMALL_SIDE = 64


class Block(nn.Module):
    """ReLU(x + F(x)); the last batch norm of F begins with the scale ``last_gamma``: 0 makes the block an identity."""

    def __init__(self, residual: nn.Sequential, shortcut: nn.Module, last_gamma: float) -> None:
        super().__init__()
        self.residual = residual
        self.shortcut = shortcut
        last = residual[-1]
        assert isinstance(last, nn.BatchNorm2d)
        nn.init.constant_(last.weight, last_gamma)

    def forward(self, x: Tensor) -> Tensor:
        """ReLU(x + F(x))."""
        return torch.relu(self.shortcut(x) + self.residual(x))


class Pad(nn.Module):
    """Option A: every other pixel, and channels of zeros, half in front and half behind."""

    def __init__(self, new_channels: int, stride: int) -> None:
        super().__init__()
        self._front, self._behind = new_channels // 2, new_channels - new_channels // 2
        self._stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """The thinned and padded input."""
        thinned = x[:, :, :: self._stride, :: self._stride]
        return nn.functional.pad(thinned, (0, 0, 0, 0, self._front, self._behind))


def _convolution(before: int, after: int, side: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(before, after, side, stride, padding=side // 2, bias=False), nn.BatchNorm2d(after)]


def basic(before: int, after: int, stride: int) -> nn.Sequential:
    """F of a basic block: 3×3, 3×3."""
    return nn.Sequential(*_convolution(before, after, 3, stride), nn.ReLU(), *_convolution(after, after, 3))


def bottleneck(before: int, after: int, stride: int) -> nn.Sequential:
    """F of a bottleneck block: 1×1 to a quarter of the channels, 3×3, 1×1 back."""
    inner = after // 4
    return nn.Sequential(
        *_convolution(before, inner, 1), nn.ReLU(),
        *_convolution(inner, inner, 3, stride), nn.ReLU(),
        *_convolution(inner, after, 1),
    )  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """The stages of a network: their channels, how many blocks each, of which kind."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    residual: Callable[[int, int, int], nn.Sequential]
    shortcut: Shortcut
    last_gamma: float

    def blocks(self, before: int) -> Iterator[Block]:
        """All blocks; the first of each stage but the first halves the image."""
        for stage, (after, depth) in enumerate(zip(self.widths, self.depths, strict=True)):
            for place in range(depth):
                stride = 2 if stage > 0 and place == 0 else 1
                yield Block(
                    self.residual(before, after, stride), self._shortcut(before, after, stride), self.last_gamma
                )
                before = after

    def _shortcut(self, before: int, after: int, stride: int) -> nn.Module:
        if (before, stride) == (after, 1):
            return nn.Identity()
        if self.shortcut == "pad":
            return Pad(after - before, stride)
        return nn.Sequential(*_convolution(before, after, 1, stride))


def _network(stem: list[nn.Module], stem_width: int, plan: _Plan, classes: int) -> nn.Sequential:
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(plan.widths[-1], classes)]
    model = nn.Sequential(*stem, *plan.blocks(stem_width), *head)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return model


def _for_cifar(
    name: str, inputs: tuple[int, ...], classes: int, block: Kind, shortcut: Shortcut, last_gamma: float
) -> nn.Sequential:
    one_of("shortcut", shortcut, ("pad", "project"))
    one_of("block", block, ("basic", "bottleneck"))
    channels, _, _ = image(name, inputs, least=8)
    inner = int(name.removeprefix("resnet")) - 2  # layers but the first and the last
    plan = (
        _Plan((16, 32, 64), (inner // 6,) * 3, basic, shortcut, last_gamma) if block == "basic"
        else _Plan((64, 128, 256), (inner // 9,) * 3, bottleneck, shortcut, last_gamma)
    )  # fmt: skip
    return _network([*_convolution(channels, 16, 3), nn.ReLU()], 16, plan, classes)


def _for_imagenet(name: str, inputs: tuple[int, ...], classes: int, stem: Stem, plan: _Plan) -> nn.Sequential:
    one_of("stem", stem, ("auto", "large", "small"))
    channels, height, width = image(name, inputs, least=32 if stem == "large" else 8)
    if stem == "small" or (stem == "auto" and max(height, width) <= SMALL_SIDE):
        return _network([*_convolution(channels, 64, 3), nn.ReLU()], 64, plan, classes)
    pool = nn.MaxPool2d(3, stride=2, padding=1)
    return _network([*_convolution(channels, 64, 7, 2), nn.ReLU(), pool], 64, plan, classes)


def resnet20(
    inputs: tuple[int, ...], classes: int, *, block: Kind = "basic", shortcut: Shortcut = "pad", last_gamma: float = 1.0
) -> nn.Sequential:
    """ResNet-20 for CIFAR-10: 269,722 parameters of basic blocks."""
    return _for_cifar("resnet20", inputs, classes, block, shortcut, last_gamma)


def resnet56(
    inputs: tuple[int, ...], classes: int, *, block: Kind = "basic", shortcut: Shortcut = "pad", last_gamma: float = 1.0
) -> nn.Sequential:
    """ResNet-56 for CIFAR-10: 853,018 parameters of basic blocks."""
    return _for_cifar("resnet56", inputs, classes, block, shortcut, last_gamma)


def resnet18(inputs: tuple[int, ...], classes: int, *, stem: Stem = "auto", last_gamma: float = 1.0) -> nn.Sequential:
    """ResNet-18: 11,689,512 parameters on ImageNet.

    ``stem="small"`` begins with 3×3 instead of 7×7 and pooling; ``"auto"`` takes it for images up to 64×64.
    """
    plan = _Plan((64, 128, 256, 512), (2, 2, 2, 2), basic, "project", last_gamma)
    return _for_imagenet("resnet18", inputs, classes, stem, plan)


def resnet50(inputs: tuple[int, ...], classes: int, *, stem: Stem = "auto", last_gamma: float = 1.0) -> nn.Sequential:
    """ResNet-50: 25,557,032 parameters on ImageNet. ``stem`` as in ResNet-18."""
    plan = _Plan((256, 512, 1024, 2048), (3, 4, 6, 3), bottleneck, "project", last_gamma)
    return _for_imagenet("resnet50", inputs, classes, stem, plan)
