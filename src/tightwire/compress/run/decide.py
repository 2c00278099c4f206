"""The break-even, measured: the fastest form of a layer on this machine.

Every form that fits is built and timed on the layer's own weights, in turns, for a bounded time; of a large layer only
as many rows as give the answer. What was found is remembered for layers of that shape, density and input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np
import torch
from torch import Tensor

from tightwire.compress.run.form import FORMS, Form, FormName

_ROUNDS = 5
_BUDGET_S = 0.15  # for timing one layer, building not counted
_EVICTS = 1 << 24  # numbers that push everything else out of a cache of 32 MiB


def fastest(make: Callable[[FormName], Form], x: Tensor, *, cold: bool) -> dict[str, float]:
    """Seconds of each form on this input: the median of some rounds, in which they take turns.

    ``cold``: before each turn the caches are emptied, as they are in a network that does not fit them.
    """
    forms: dict[str, Form] = {name: make(name) for name in FORMS}
    seconds: dict[str, list[float]] = {name: [] for name in forms}
    for form in forms.values():
        form(x)  # compiles, and allocates
    evict = np.zeros(_EVICTS, np.float32) if cold else None
    deadline = time.perf_counter() + _BUDGET_S
    for _ in range(_ROUNDS):
        for name, form in forms.items():
            if evict is not None:
                evict += 1
            begin = time.perf_counter()
            form(x)
            seconds[name].append(time.perf_counter() - begin)
        if time.perf_counter() > deadline:
            break
    return {name: median(times) for name, times in seconds.items()}


def best(seconds: Mapping[str, float]) -> FormName:
    """The form that took least."""
    return min(FORMS, key=lambda name: seconds.get(name, float("inf")))


def probe_rows(rows: int, columns: int, *, groups: int, most: int = 1 << 24) -> int:
    """How many rows of a matrix to time: all, or enough to outgrow the caches."""
    return rows if groups > 1 else max(1, min(rows, most // max(columns, 1)))


def key(*, kind: str, shape: tuple[int, ...], density: float, centroids: int, inputs: tuple[int, ...]) -> str:
    """What a measurement is remembered by: two layers of the same key take the same form."""
    width = "short" if centroids <= 32 else "long"
    size = "×".join(map(str, shape))
    given = "×".join(map(str, inputs))
    return f"{kind} {size} density {density:.2g} {width} input {given} threads {torch.get_num_threads()}"
