"""AlexNet in Caffe's variant, as a plain nn.Sequential: 60,965,224 parameters on ImageNet.

    conv 11×11/4, 96 — norm — pool — conv 5×5, 256, 2 groups — norm — pool — conv 3×3, 384 — conv 3×3, 384, 2 groups
    — conv 3×3, 256, 2 groups — pool — 4096, dropout — 4096, dropout — classes;    ReLU after each, pool: max, 3×3/2

Krizhevsky, Sutskever, Hinton: ImageNet Classification with Deep Convolutional Neural Networks. NIPS 2012.
Caffe's images are 227×227; as there, pooling rounds up, so that 224×224 gives the same 6×6×256 features.
"""

from __future__ import annotations

from math import ceil

from torch import nn

from tightwire.models.errors import image


def alexnet(inputs: tuple[int, ...], classes: int) -> nn.Sequential:
    """AlexNet for images from 67×67 on."""
    channels, height, width = image("alexnet", inputs, least=67)
    rows, columns = (_pooled(_pooled(_pooled((side - 11) // 4 + 1))) for side in (height, width))
    return nn.Sequential(
        nn.Conv2d(channels, 96, 11, stride=4), nn.ReLU(), _norm(), _pool(),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), _norm(), _pool(),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), _pool(),
        nn.Flatten(),
        nn.Linear(256 * rows * columns, 4096), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(4096, classes),
    )  # fmt: skip


def _norm() -> nn.LocalResponseNorm:
    return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0)


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


def _pooled(side: int) -> int:
    return ceil((side - 3) / 2) + 1
