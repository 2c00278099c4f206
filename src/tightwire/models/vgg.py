"""VGG-16 (configuration D), as a plain nn.Sequential: 138,357,544 parameters on ImageNet.

    conv 3×3, ReLU:  64 64 | 128 128 | 256 256 256 | 512 512 512 | 512 512 512     | = max-pool 2, also at the end
    head:            4096, ReLU, dropout — 4096, ReLU, dropout — classes;     on 32×32:  512, ReLU, dropout — classes

Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition. ICLR 2015, arXiv 1409.1556.
The head for 32×32, where one pixel of 512 channels is left, is that of Li, Kadav, Durdanovic, Samet, Graf: Pruning
Filters for Efficient ConvNets. ICLR 2017; 14,982,474 parameters on CIFAR-10, where ``norm="batch"`` trains more easily.
``width=0.25`` keeps a quarter of the channels and hidden units everywhere: a sixteenth of the work.
"""

from __future__ import annotations

from typing import Literal

from torch import nn

from tightwire.models.errors import ModelError, image, one_of

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(
    inputs: tuple[int, ...], classes: int, *, norm: Literal["none", "batch"] = "none", width: float = 1.0
) -> nn.Sequential:
    """VGG-16; the head follows the size of the image. ``width`` is the share of channels and hidden units."""
    one_of("norm", norm, ("none", "batch"))
    if not 1 / 64 <= width <= 64:
        raise ModelError(f"width={width} must be a share of the channels, from 1/64 to 64; 1 is the paper's network")
    before, height, columns = image("vgg16", inputs, least=32)
    layers: list[nn.Module] = []
    for group in GROUPS:
        for after in (round(width * channels) for channels in group):
            layers.append(nn.Conv2d(before, after, 3, padding=1))
            if norm == "batch":
                layers.append(nn.BatchNorm2d(after))
            layers.append(nn.ReLU())
            before = after
        layers.append(nn.MaxPool2d(2))
    left = before * (height // 32) * (columns // 32)
    hidden = (512,) if (height, columns) == (32, 32) else (4096, 4096)
    layers.append(nn.Flatten())
    for units in (round(width * many) for many in hidden):
        layers += [nn.Linear(left, units), nn.ReLU(), nn.Dropout(0.5)]
        left = units
    model = nn.Sequential(*layers, nn.Linear(left, classes))
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return model
