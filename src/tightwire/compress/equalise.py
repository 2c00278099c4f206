"""Filters of one layer brought to one scale, the batch norm behind them taking the difference: the same network.

    s_c = rms(w_c) / rms(w):     w_c ← w_c / s_c,   mean_c ← mean_c / s_c,   γ_c ← γ_c · s_c

The norm gives γ·(y − mean)/√(var + ε); with y/s in place of y, the above makes that what it was. One codebook then fits
all filters of a layer. It matters where channels differ most, in depthwise convolutions, and costs nothing: the numbers
of a norm are stored anyway. The idea of moving scales between layers: Nagel, van Baalen, Blankevoort, Welling:
Data-Free Quantization Through Weight Equalization and Bias Correction. ICCV 2019, arXiv 1906.04721.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import nn


@torch.no_grad()
def equalise_(model: nn.Module) -> list[str]:
    """Equalise every convolution that a batch norm follows directly in a sequence; their names. Only for inference."""
    done = []
    for name, convolution, norm in _pairs(model):
        rms_C = convolution.weight.flatten(1).square().mean(1).sqrt()
        rms = rms_C.square().mean().sqrt()
        if norm.running_mean is None or not norm.affine or not bool((rms_C > 1e-6 * rms).all()):
            continue
        scale_C = rms_C / rms
        convolution.weight.div_(scale_C.view(-1, *[1] * (convolution.weight.ndim - 1)))
        if convolution.bias is not None:
            convolution.bias.div_(scale_C)
        norm.running_mean.div_(scale_C)
        norm.weight.mul_(scale_C)
        done.append(name)
    return done


def _pairs(model: nn.Module) -> Iterator[tuple[str, nn.Conv2d, nn.BatchNorm2d]]:
    for path, module in model.named_modules():
        if isinstance(module, nn.Sequential):
            for (name, layer), (_, norm) in pairwise(module.named_children()):
                if isinstance(layer, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                    yield f"{path}.{name}" if path else name, layer, norm
