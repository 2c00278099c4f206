"""How unevenly a port was shared, by when the messages that crossed it together were through.

    V      bytes that a message of weight 1 has had           dV/dt = B ÷ Σ w of those who are still at the port
    w_i = n ÷ V_i                                             V when message i of n bytes is through

    V_(i−1) = V_i − (t_i − t_(i−1)) ÷ (n/B · Σ_(j ≥ i) 1/V_j)      from the last to the first, its own V being 1

Times in order, and a port that is never idle. What matters is the deviation of log w: 0 if all were through together.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from math import log

_LEAST = 0.02  # of the last one's V: who had the port for itself


def unevenness(rounds: Sequence[Sequence[float]], alone_s: float) -> float:
    """The deviation of log w over rounds of messages that began together; one alone takes so long.

    >>> unevenness([[3.0, 3.0, 3.0]], 1.0), round(unevenness([[1.5, 2.0]], 1.0), 3)
    (0.0, 0.49)
    """
    spread = [statistics.variance(map(log, shared(times, alone_s))) for times in rounds if len(times) > 1]
    return statistics.mean(spread) ** 0.5 if spread else 0.0


def shared(times: Sequence[float], alone_s: float) -> list[float]:
    """V at the end of each message, relative to the last one's: twice as large for half the share."""
    found = [1.0]
    for earlier, later in pairwise(sorted(times, reverse=True)):
        rate = alone_s * sum(1 / v for v in found)
        found.append(max(_LEAST, found[-1] - (earlier - later) / rate))
    return found
