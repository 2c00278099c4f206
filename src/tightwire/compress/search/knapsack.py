"""One choice a unit, least harm within a budget: exact, by merging fronts.

    front_t = undominated(front_{t−1} ⊕ choices_t)        all (cost, harm) of units 0 … t that no other beats in both

The multiple-choice knapsack by dynamic programming over undominated pairs (Kellerer, Pferschy, Pisinger: Knapsack
Problems. Springer 2004, chapter 11). A front that grows beyond `MOST` is thinned to the least harm in each of so many
steps of the budget: what is found still fits, and is the best but for one step a unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError
from tightwire.compress.search.cost import Floats

MOST = 20_000


def knapsack(costs: Sequence[Floats], harms: Sequence[Floats], target: float) -> list[int]:
    """The choice of each unit: Σ costs ≤ target, Σ harms as small as can be.

    >>> knapsack([np.array([1.0, 3.0]), np.array([1.0, 2.0])], [np.array([5.0, 0.0]), np.array([4.0, 0.0])], 4.0)
    [1, 0]
    """
    cost_F, harm_F = np.zeros(1), np.zeros(1)
    picks: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    for t, (cost_C, harm_C) in enumerate(zip(costs, harms, strict=True)):
        later = sum(float(some.min()) for some in costs[t + 1 :])
        cost_FC = cost_F[:, None] + cost_C[None, :]
        harm_FC = harm_F[:, None] + harm_C[None, :]
        cost_F, harm_F, place = _front(cost_FC.ravel(), harm_FC.ravel(), target - later)
        if not len(place):
            raise CompressError(f"no choice of units fits into {target:.6g}; ask for a larger budget")
        picks.append((place // len(cost_C), place % len(cost_C)))
    at, chosen = int(np.argmin(harm_F)), []
    for before_F, choice_F in reversed(picks):
        chosen.append(int(choice_F[at]))
        at = int(before_F[at])
    return chosen[::-1]


def _front(cost_N: Floats, harm_N: Floats, limit: float) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """What no other beats in both, by ascending cost, and where it came from."""
    fits = np.flatnonzero(cost_N <= limit * (1 + 1e-12))
    order = fits[np.lexsort((harm_N[fits], cost_N[fits]))]
    if not len(order):
        return cost_N[:0], harm_N[:0], order
    before = np.concatenate([[np.inf], np.minimum.accumulate(harm_N[order])[:-1]])
    kept = order[harm_N[order] < before]
    if len(kept) > MOST:  # of those within one step of cost, the last has the least harm
        step = np.floor(cost_N[kept] / max(limit, 1e-30) * MOST)
        kept = kept[np.append(np.diff(step) > 0, True)]
    return cost_N[kept], harm_N[kept], kept
