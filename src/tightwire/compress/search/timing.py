"""How long modules take on one device, in nanoseconds: the median of short rounds, the quietest of a few.

Machines become slower and faster by a third within minutes, so what is compared is timed in turns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor, nn

_ROUND_S = 0.004
_ROUNDS, _TRIES = 7, 3


def time_ns(module: nn.Module, x: Tensor, *, rounds: int = _ROUNDS, round_s: float = _ROUND_S) -> float:
    """Nanoseconds of one call. Rounds that are disturbed are the longer ones, so the least median of three is taken."""
    (found,) = in_turns_ns([module], x, rounds=rounds, tries=_TRIES, round_s=round_s)
    return found


@torch.inference_mode()
def in_turns_ns(
    modules: Sequence[nn.Module],
    x: Tensor,
    *,
    rounds: int = _ROUNDS,
    tries: int = 3 * _TRIES,
    round_s: float = _ROUND_S,
) -> list[float]:
    """The same for several modules, one round of each after another."""
    timed = []
    for module in modules:
        module.eval()
        for _ in range(3):
            module(x)
        timed.append((module, max(1, int(round_s / max(_seconds(module, x, 1), 1e-7)))))
    least = [float("inf")] * len(modules)
    for _ in range(tries):
        taken = [[_seconds(module, x, calls) for module, calls in timed] for _ in range(rounds)]
        least = [min(before, median(now)) for before, now in zip(least, zip(*taken, strict=True), strict=True)]
    return [1e9 * seconds for seconds in least]


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
