"""Equidistant levels, beside k-means for comparison: what most hardware does.

    w ≈ s·q,   q a whole number from −(2^(b−1) − 1) to 2^(b−1) − 1

The step s is the one with the least squared error, found along a ladder below the one that reaches the largest weight:
cutting off a few outliers makes all other steps finer. Symmetric, so that zero is a level and pruned weights stay so.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tightwire.compress.errors import CompressError
from tightwire.compress.share.tensors import share_to
from tightwire.compress.shared_weights import SharedWeights

_LADDER = 80
_LEAST = 0.2  # of the step that reaches the largest weight


def levels(bits: int) -> int:
    """The largest q.

    >>> levels(4)
    7
    """
    if not 2 <= bits <= 16:
        raise CompressError(f"bits={bits}: uniform levels take 2 to 16")
    return (1 << (bits - 1)) - 1


def round_to(weight: Tensor, step: Tensor | float, bits: int) -> Tensor:
    """Every weight at the nearest level."""
    most = levels(bits)
    return torch.clamp(torch.round(weight / step), -most, most) * step


def best_step(weight: Tensor, bits: int) -> float:
    """The step with the least squared error; that of the largest weight if all are zero."""
    largest = float(weight.detach().abs().max()) if weight.numel() else 0.0
    if largest == 0:
        return 1.0
    flat_N = weight.detach().double().flatten()
    steps = np.linspace(_LEAST, 1.0, _LADDER) * largest / levels(bits)
    errors = [float((round_to(flat_N, float(step), bits) - flat_N).square().sum()) for step in steps]
    return float(steps[int(np.argmin(errors))])


def uniform(weight: Tensor, bits: int, *, step: float | None = None) -> SharedWeights:
    """The weights at 2^bits − 1 equidistant levels, as codes and levels (post-training quantisation).

    >>> uniform(torch.tensor([0.5, 1.0, -1.0, 0.1]), 2, step=1.0).dense()
    tensor([ 0.,  1., -1.,  0.])
    """
    step = best_step(weight, bits) if step is None else step
    near = round_to(weight.detach().float().cpu(), step, bits) + 0.0
    level_L = np.unique(near.numpy())
    return share_to(near, level_L[level_L != 0]) if (level_L != 0).any() else share_to(near, level_L[:0])
