"""Images never the same twice, on any device: shifted, or shifted and mirrored.

    shift       up to 2 pixels, the border repeated: for digits, whose mirror image is another sign
    crop-flip   up to 4 pixels over zeros, mirrored every other time: for photographs
                He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition. CVPR 2016, section 4.2

Random numbers come from the generator that is given, which lies on the device of the images, so that nothing waits for
the host; from torch's own if none is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

MARGIN = 4
_NEAR = 2
Augment = Callable[[Tensor, torch.Generator | None], Tensor]
AugmentName = Literal["none", "shift", "crop-flip"]


def shift(x_BCHW: Tensor, random: torch.Generator | None = None) -> Tensor:
    """The images, each shifted.

    >>> shift(torch.ones(2, 1, 8, 8), torch.Generator().manual_seed(0)).min()
    tensor(1.)
    """
    padded = F.pad(x_BCHW, (_NEAR,) * 4, mode="replicate")
    column_W = torch.arange(x_BCHW.shape[3], device=x_BCHW.device)
    return _window(padded, column_W.expand(len(x_BCHW), -1), x_BCHW.shape[2], random)


def crop_flip(x_BCHW: Tensor, random: torch.Generator | None = None, margin: int = MARGIN) -> Tensor:
    """The images, each shifted and perhaps mirrored.

    >>> crop_flip(torch.ones(2, 3, 8, 8), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 8, 8])
    """
    padded = F.pad(x_BCHW, (margin,) * 4)
    device = x_BCHW.device
    column_W = torch.arange(x_BCHW.shape[3], device=device)
    mirrored_B = torch.rand(len(x_BCHW), 1, generator=random, device=device) < 0.5
    return _window(padded, torch.where(mirrored_B, column_W.flip(0), column_W), x_BCHW.shape[2], random)


AUGMENTS: dict[AugmentName, Augment | None] = {"none": None, "shift": shift, "crop-flip": crop_flip}


def _window(padded: Tensor, column_BW: Tensor, height: int, random: torch.Generator | None) -> Tensor:
    """Of every padded image, these columns and as many rows as it had, both from a place of its own."""
    batch, channels, tall, wide = padded.shape
    down_B1, right_B1 = torch.randint(tall - height + 1, (2, batch, 1), generator=random, device=padded.device)
    row_BH = torch.arange(height, device=padded.device) + down_B1
    place_BHW = row_BH[:, :, None] * wide + (column_BW + right_B1)[:, None]
    picked = padded.flatten(2).gather(2, place_BHW.view(batch, 1, -1).expand(-1, channels, -1))
    return picked.view(batch, channels, height, -1)
