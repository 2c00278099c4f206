"""Which cores workers sit on, so that their speed is the same from one minute to the next, and none slows another.

A pipeline is as fast as its slowest worker. A virtual machine may show two hardware threads of one core as two cores,
and does not say which. So the first core is timed beside each of the others: the one beside which it is much slower is
its partner, and partners lie equally far from each other everywhere.

    cores  0 1 2 3 4 5 6 7      0 is slowed by 1: workers take 0 2 4 6, and only then 1 3 5 7
                                0 is slowed by 4: workers take 0 1 2 3, and only then 4 5 6 7
"""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

import torch

SLOWED = 0.8  # below this share of its usual rate, a core shares something with the other
_SIDE = 384  # of the matrices that are multiplied; they stay in a core's own cache
_LOOK_S = 0.06
_LOOKS = 2  # of which the better counts: what disturbs does so for a moment
Rate = Callable[[int, int], float]


def order_of(cores: Sequence[int], distance: int | None) -> list[int]:
    """All cores, those first that have no partner among the ones before them.

    >>> order_of(range(8), 1), order_of(range(4), 2), order_of([3, 5], None)
    ([0, 2, 4, 6, 1, 3, 5, 7], [0, 1, 2, 3], [3, 5])
    """
    if distance is None:
        return list(cores)
    places = sorted(range(len(cores)), key=lambda place: place % (2 * distance) >= distance)
    return [cores[place] for place in places]


def partner_distance(rates: Sequence[float]) -> int | None:
    """How far the first core's partner is, from its rates beside the second, third, … core; None: it has none.

    >>> partner_distance([9.8, 10.0, 5.6, 10.1]), partner_distance([9.8, 10.0, 9.9])
    (3, None)
    """
    if len(rates) < 3:
        return None
    least = min(rates)
    return rates.index(least) + 1 if least < SLOWED * statistics.median(rates) else None


def look(cores: Sequence[int], rate: Rate | None = None) -> list[float]:
    """The rates of the first core beside each of the others."""
    rate = rate or rate_beside
    return [max(rate(cores[0], other) for _ in range(_LOOKS)) for other in cores[1:]]


def rate_beside(core: int, other: int) -> float:
    """Products a second on one core while another one multiplies, too."""
    begin, done = threading.Barrier(2), [0.0, 0.0]

    def multiply(place: int, on: int) -> None:
        with sitting_on(on):
            a = torch.ones(_SIDE, _SIDE)
            b = torch.empty_like(a)
            begin.wait()
            count, since = 0, perf_counter()
            while perf_counter() - since < _LOOK_S:
                torch.mm(a, a, out=b)
                count += 1
            done[place] = count / (perf_counter() - since)

    beside = threading.Thread(target=multiply, args=(1, other))
    beside.start()
    multiply(0, core)
    beside.join()
    return done[0]


def mine() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


@contextmanager
def sitting_on(core: int | None) -> Iterator[None]:
    """Inside, this thread runs on one core. Threads that were there before, such as gloo's, run where they like."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
