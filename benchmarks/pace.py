"""How fast workers compute who share cores, and what it costs them to meet. All ranks call this together."""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

IN_A_ROW, MEETINGS = 4, 20  # passes, and messages, that are measured together


def compute_together(
    model: nn.Module, batch: tuple[Tensor, Tensor], *, times: int, who: int | None = None, meeting: bool = False
) -> float:
    """Forward and backward of the first ``who`` ranks at once, several in a row: what one takes, the mean over ranks.

    In a row, because whoever is first after a barrier had the cores for itself. ``meeting``: they meet after each.
    """
    (x, y), who = batch, who or dist.get_world_size()
    met, means = torch.zeros(1), []
    for _ in range(times + 1):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(IN_A_ROW if dist.get_rank() < who else 0):
            F.cross_entropy(model(x), y).backward()
            for p in model.parameters():
                p.grad = None
            if meeting:
                dist.all_reduce(met)
        took = torch.zeros(dist.get_world_size(), dtype=torch.float64)
        took[dist.get_rank()] = (time.perf_counter() - start) / IN_A_ROW
        dist.all_reduce(took)
        means.append(float(took[:who].mean()))
    return statistics.median(means[1:] or means)


def waiting_for_the_last(model: nn.Module, batch: tuple[Tensor, Tensor]) -> float:
    """What meeting after every pass costs beyond the message itself: who shares cores is not served evenly."""
    met = torch.zeros(1)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(MEETINGS):
        dist.all_reduce(met)
    message_s = (time.perf_counter() - start) / MEETINGS
    lost = [
        compute_together(model, batch, times=1, meeting=True) - compute_together(model, batch, times=1) - message_s
        for _ in range(5)
    ]
    return max(0.0, common(statistics.median(lost)))


def common(value: float) -> float:
    """The mean over ranks."""
    heard = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(heard)
    return float(heard) / dist.get_world_size()
