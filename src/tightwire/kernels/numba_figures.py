"""What chunks of a bucket come to, in one pass over it, compiled by Numba: `codecs.passes.Figures` on a CPU.

Sums are kept in float64, so that the order in which elements are added, which the compiler may change to use vectors,
is gone when they are rounded to float32.
"""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_ANY_ORDER = {"reassoc"}


@numba.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def sides(x: Any, begin: Any, end: Any, low: Any, high: Any, count: Any, first: int, last: int) -> None:
    """Of chunks ``first`` to ``last``: the sums below zero and from zero on, and how many are from zero on."""
    for c in range(first, last):
        below, above, many = 0.0, 0.0, 0
        for i in range(begin[c], end[c]):
            up = x[i] >= 0
            above += np.float64(x[i]) if up else 0.0
            below += 0.0 if up else np.float64(x[i])
            many += up
        low[c], high[c], count[c] = below, above, many


@numba.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def sizes(x: Any, begin: Any, end: Any, square: Any, most: Any, first: int, last: int) -> None:
    """Of chunks ``first`` to ``last``: the sum of squares and the largest magnitude; one that is no number stays it."""
    for c in range(first, last):
        total = 0.0
        largest = np.float32(0)
        for i in range(begin[c], end[c]):
            size = abs(x[i])
            total += np.float64(size) * np.float64(size)
            largest = size if size > largest else largest
        square[c] = total
        most[c] = np.float32(np.nan) if np.isnan(total) else largest
