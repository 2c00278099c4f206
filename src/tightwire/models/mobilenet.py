"""MobileNetV2: inverted residual blocks with linear bottlenecks; 3,504,872 parameters on ImageNet.

    x ── 1×1 to t times the channels ── 3×3, each channel alone ── 1×1, linear ──(+ x, where shapes agree)── y

Sandler, Howard, Zhu, Zhmoginov, Chen: MobileNetV2: Inverted Residuals and Linear Bottlenecks. CVPR 2018, table 2.
Layers have the names under which ImageNet weights are commonly published (``features.N.conv.…``, ``classifier.1``), so
that such a file loads as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tightwire.models.errors import ModelError, image

STAGES = (  # expansion, channels, blocks, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
STEM, LAST = 32, 1280


def _convolution(before: int, after: int, side: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, side, stride, padding=side // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU6(inplace=True),
    )


class Inverted(nn.Module):
    """An inverted residual block."""

    def __init__(self, before: int, after: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = before * expansion
        widen = [_convolution(before, inner)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *widen,
            _convolution(inner, inner, 3, stride, groups=inner),
            nn.Conv2d(inner, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self._adds = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """F(x), and x added where that can be."""
        out: Tensor = self.conv(x)
        return x + out if self._adds else out


class MobileNetV2(nn.Module):
    """Features, the mean over the image, one linear layer."""

    def __init__(self, channels: int, classes: int, dropout: float) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(channels, STEM, 3, 2)]
        before = STEM
        for expansion, after, blocks, stride in STAGES:
            for place in range(blocks):
                layers.append(Inverted(before, after, stride if place == 0 else 1, expansion))
                before = after
        self.features = nn.Sequential(*layers, _convolution(before, LAST))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(LAST, classes))
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out")

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images."""
        mean: Tensor = torch.mean(self.features(x), (2, 3))
        logits: Tensor = self.classifier(mean)
        return logits


def mobilenet_v2(inputs: tuple[int, ...], classes: int, *, dropout: float = 0.2) -> MobileNetV2:
    """MobileNetV2 at width 1; the image is halved five times."""
    if not 0 <= dropout < 1:
        raise ModelError(f"dropout={dropout} must be at least 0 and below 1")
    channels, _, _ = image("mobilenet-v2", inputs, least=1)
    return MobileNetV2(channels, classes, dropout)
