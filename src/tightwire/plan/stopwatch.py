"""Moments on a device: a clock of this machine, or events on a GPU's stream, which nothing has to wait for.

The clock is the wall's. Where others share the cores, ``time.process_time`` says what a core did for this process: that
does not depend on who else was at work at that very moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

Clock = Callable[[], float]


class Stopwatch:
    """Marks moments; afterwards says how far apart they were.

    >>> watch = Stopwatch(torch.device("cpu")); a = watch.mark(); watch.seconds(a, watch.mark()) >= 0
    True
    """

    def __init__(self, device: torch.device, clock: Clock = time.perf_counter) -> None:
        self._cuda = device.type == "cuda"
        self._clock = clock

    def mark(self) -> Any:
        """Now, in the order of the device's work."""
        if not self._cuda:
            return self._clock()
        moment = torch.cuda.Event(enable_timing=True)
        moment.record()
        return moment

    def seconds(self, start: Any, end: Any) -> float:
        """From one mark to another."""
        if not self._cuda:
            return float(end - start)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
