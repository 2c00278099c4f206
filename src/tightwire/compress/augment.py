"""Crops and mirrors on any device: each image shifted by up to 4 pixels over zeros, and mirrored every other time.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition. CVPR 2016, section 4.2. Random numbers come from the
generator that is given, which lies on the device of the images, so that nothing waits for the host.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

MARGIN = 4


def crop_flip(x_BCHW: Tensor, random: torch.Generator) -> Tensor:
    """The images, each shifted and perhaps mirrored; never the same twice.

    >>> crop_flip(torch.ones(2, 3, 8, 8), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 8, 8])
    """
    batch, channels, height, width = x_BCHW.shape
    device = x_BCHW.device
    padded = F.pad(x_BCHW, (MARGIN,) * 4)
    down_B, right_B = torch.randint(2 * MARGIN + 1, (2, batch, 1), generator=random, device=device)
    column_W = torch.arange(width, device=device)
    mirrored_B = torch.rand(batch, 1, generator=random, device=device) < 0.5
    column_BW = torch.where(mirrored_B, column_W.flip(0), column_W) + right_B
    row_BH = torch.arange(height, device=device) + down_B
    image_B = torch.arange(batch, device=device)
    channel_C = torch.arange(channels, device=device)
    return padded[
        image_B[:, None, None, None], channel_C[:, None, None], row_BH[:, None, :, None], column_BW[:, None, None, :]
    ]
