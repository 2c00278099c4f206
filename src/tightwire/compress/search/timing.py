"""How long a module takes on one device, in nanoseconds: the median of short rounds, the quietest of a few."""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import Tensor, nn

_ROUND_S = 0.004
_ROUNDS, _TRIES = 7, 3


@torch.inference_mode()
def time_ns(module: nn.Module, x: Tensor, *, rounds: int = _ROUNDS, round_s: float = _ROUND_S) -> float:
    """Nanoseconds of one call. Rounds that are disturbed are the longer ones, so the least median of three is taken."""
    module.eval()
    for _ in range(3):
        module(x)
    calls = max(1, int(round_s / max(_seconds(module, x, 1), 1e-7)))
    tries = [median(_seconds(module, x, calls) for _ in range(rounds)) for _ in range(_TRIES)]
    return 1e9 * min(tries)


def _seconds(module: nn.Module, x: Tensor, calls: int) -> float:
    _wait(x)
    begin = time.perf_counter()
    for _ in range(calls):
        module(x)
    _wait(x)
    return (time.perf_counter() - begin) / calls


def _wait(x: Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
