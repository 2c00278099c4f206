"""The user's optimizer steps: once for all tensors, with the rates and gradients that its seat prescribes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from tightwire.algebra.rule import Seat, Sets
from tightwire.algebra.world import At
from tightwire.run.amp import Scaling
from tightwire.run.lane import Lane


def step_seat(optimizer: torch.optim.Optimizer, lanes: Sequence[Lane], scaling: Scaling, at: At) -> None:
    """Prepare gradients, set the rates for one step, step. All lanes share one seat (`check` sees to it)."""
    seat = lanes[0].seat
    with torch.no_grad():
        for group in optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    seat.prepare_(weight, weight.grad, group)
    with _rates(optimizer, seat.rate(at)), _settings(optimizer, seat):
        scaling.step(optimizer)


@contextmanager
def _settings(optimizer: torch.optim.Optimizer, seat: Seat) -> Iterator[None]:
    """What the seat prescribes, for one step."""
    fixed = seat.settings if isinstance(seat, Sets) else {}
    own = [{key: group[key] for key in fixed} for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group.update(fixed)
    try:
        yield
    finally:
        for group, before in zip(optimizer.param_groups, own, strict=True):
            group.update(before)


@contextmanager
def _rates(optimizer: torch.optim.Optimizer, factor: float) -> Iterator[None]:
    """Learning rates times a factor, for one step: schedulers find their own values again."""
    if factor == 1.0:
        yield
        return
    own = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * factor
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, own, strict=True):
            group["lr"] = rate
