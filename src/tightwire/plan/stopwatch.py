"""Moments on a device: the clock of this machine, or events on a GPU's stream, which nothing has to wait for."""

from __future__ import annotations

import time
from typing import Any

import torch


class Stopwatch:
    """Marks moments; afterwards says how far apart they were.

    >>> watch = Stopwatch(torch.device("cpu")); a = watch.mark(); watch.seconds(a, watch.mark()) >= 0
    True
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"

    def mark(self) -> Any:
        """Now, in the order of the device's work."""
        if not self._cuda:
            return time.perf_counter()
        moment = torch.cuda.Event(enable_timing=True)
        moment.record()
        return moment

    def seconds(self, start: Any, end: Any) -> float:
        """From one mark to another."""
        if not self._cuda:
            return float(end - start)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
