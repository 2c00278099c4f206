"""Clipping by the global norm, where it has a meaning under compression.

gradients exchanged without memory   the norm of the *mean* gradient, which all ranks hold: exact
remembered (DGC, one-bit, …)         before it enters the memory: ‖g_k/P‖ ≤ c·P^(−1/2), Lin et al. 2018, section 3.3
pushed to a server, or kept local    each worker's own gradient: ‖g_k‖ ≤ c
"""

from __future__ import annotations

from math import inf, nan, sqrt
from typing import TYPE_CHECKING

import torch
from torch import nn

from tightwire.algebra.errors import UsageError

if TYPE_CHECKING:
    from tightwire.run.worker import Worker


def clip(worker: Worker, max_norm: float, *, wait: bool = True) -> float:
    """Scale gradients down to ``max_norm``; return the norm that was compared, or NaN without waiting for it."""
    assert worker.launcher is not None
    worker.clips = True
    if worker.scaling.overflowed(worker.tensors.values(), worker.shares_gradients()):
        return inf
    worker.scaling.unscale(worker.optimizer)
    limit = max_norm
    if any(lane.clips_first for lane in worker.lanes):
        if worker.launcher.launched:
            raise UsageError(
                "clip() came after gradients had left, because no earlier step clipped; call wire.clip(…) in every "
                "step from the first"
            )
        if any(lane.early and lane.remembers for lane in worker.lanes):
            limit = max_norm * sqrt(worker.link.world.size)
    else:
        worker.exchange_gradients()
    for tensor in worker.tensors.values():
        if tensor.grad is not None and tensor.grad.layout != torch.strided:
            tensor.grad = tensor.grad.to_dense()
    norm = nn.utils.clip_grad_norm_(list(worker.tensors.values()), limit)
    return float(norm) if wait else nan
