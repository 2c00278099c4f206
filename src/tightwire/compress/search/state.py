"""What the agent sees of a unit: AMC's 11 features, each between 0 and 1.

    (t, n, c, h, w, stride, k, cost[t], reduced, rest, a_{t−1})

cost is that of the budget (multiply-adds, parameters, bytes, time); reduced is what earlier decisions saved, rest what
later units cost as they are; a is what was really kept of the unit before, clipped and rounded. A search with more
than one axis appends the places of the unit before on the other axes. He et al.: AMC. ECCV 2018, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.search.cost import Cost, Levels
from tightwire.compress.search.units import Unit

FEATURES = 11


class States:
    """The features of some units: what never changes is scaled once, the rest is filled in on the way."""

    def __init__(self, units: Sequence[Unit], cost: Cost) -> None:
        self._units, self._cost = units, cost
        dense_1T = cost.dearest[None]
        part_T = np.array([float(cost.part(dense_1T, t)[0]) for t in range(len(units))])
        rows = [(t, *_numbers(unit), part_T[t]) for t, unit in enumerate(units)]
        self.fixed_TF = _min_max(np.array(rows, np.float64))
        behind_T = part_T[::-1].cumsum()[::-1] - part_T
        self._rest_T = behind_T / max(float(part_T.sum()), 1e-30)
        self._most = cost.most

    @property
    def width(self) -> int:
        """Features of a state."""
        return FEATURES + len(self._units[0].axes) - 1

    def at(self, t: int, chosen_1T: Levels) -> NDArray[np.float32]:
        """The state before unit ``t``, when those before it are chosen."""
        now_1T = self._cost.dearest[None].copy()
        now_1T[:, :t] = chosen_1T[:, :t]
        reduced = 1 - float(self._cost.total(now_1T)[0]) / self._most
        kept, places = 1.0, [1.0] * (len(self._units[0].axes) - 1)
        if t > 0:
            before, choice = self._units[t - 1], int(chosen_1T[0, t - 1])
            kept, places = before.choices[choice].ratio, list(before.action(choice)[1:])
        changing = [reduced, float(self._rest_T[t]), kept, *places]
        return np.concatenate([self.fixed_TF[t], changing]).astype(np.float32)


def _numbers(unit: Unit) -> tuple[int, ...]:
    s = unit.shape
    return (s.n, s.c, s.h, s.w, s.stride, s.k)


def _min_max(row_TF: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each column between 0 and 1; one that never changes is 0.

    >>> _min_max(np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    """
    low_F, high_F = row_TF.min(0), row_TF.max(0)
    scaled: NDArray[np.float64] = (row_TF - low_F) / np.where(high_F > low_F, high_F - low_F, 1.0)
    return scaled
