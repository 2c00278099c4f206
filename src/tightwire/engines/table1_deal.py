"""Columns of a wide layer dealt out by what workers really take: cores differ, and layers timed alone share no memory.

    trial ─▶ seconds b_r of worker r without its waiting, c_r columns, l_r + k·c_r seconds as planned
    pace     p_r = b_r / (l_r + k·c_r)                     how much slower than planned
    deal     level L with Σ_r max(0, L − b_r + k·p_r·c_r) / (k·p_r) = all columns

Trials run in the processes, and on the cores, of the run that counts. What a worker takes grows evenly with its
columns, so the latest two trials with minibatches of one size are averaged, seconds and columns alike. Earlier ones are
left out: a pace is exact only near the columns that it was found with, because messages cost time, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from tightwire.splits.stages import deal

TRIALS = (1, 1, 1)  # short runs after which columns move, with such a part of a minibatch
_PACES = (0.5, 4.0)  # what is outside was disturbed
_LATEST = 2


@dataclass(frozen=True)
class Trial:
    """What each worker had and took, a minibatch of ``batch`` samples."""

    batch: int
    columns: tuple[int, ...]
    busy_s: tuple[float, ...]


@dataclass(frozen=True)
class Planned:
    """Seconds of each worker's whole layers, and of one column."""

    layers_s: tuple[float, ...]
    column_s: float

    def pace(self, worker: int, columns: float, busy_s: float) -> float:
        """How many times longer than planned a worker is busy."""
        planned_s = self.layers_s[worker] + columns * self.column_s
        return min(max(busy_s / planned_s, _PACES[0]), _PACES[1]) if planned_s else 1.0


def rebalanced(trials: Sequence[Trial], planned: Planned) -> tuple[int, ...]:
    """Columns moved from those who are busy longer than the others to those who are not, by the latest trials.

    >>> rebalanced([Trial(8, (10, 10), (1.5, 0.5))], Planned((0.0, 0.0), 0.1))
    (5, 15)
    """
    alike = [trial for trial in trials if trial.batch == trials[-1].batch][-_LATEST:]
    columns = [fmean(each) for each in zip(*(trial.columns for trial in alike), strict=True)]
    busy_s = [fmean(each) for each in zip(*(trial.busy_s for trial in alike), strict=True)]
    each = list(zip(columns, busy_s, strict=True))
    pace = [planned.pace(worker, had, busy) for worker, (had, busy) in enumerate(each)]
    without = [max(0.0, busy - had * planned.column_s * slow) for (had, busy), slow in zip(each, pace, strict=True)]
    units = sum(trials[-1].columns)
    return deal(without, planned.column_s * units, units, pace)
