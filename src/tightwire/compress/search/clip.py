"""Hard budgets: whatever an agent asks for, the policy it ends with costs at most what was given.

    before unit t:   cost(chosen 0 … t−1, the cheapest from t on)  ≤  target     (at the beginning, or it is refused)
    at unit t:       the first in the order of what was asked with cost(…, it, the cheapest from t+1 on) ≤ target
    after unit T:    cost(chosen) ≤ target

The cheapest always fits, so there is always one. AMC's algorithm 1 states the same for costs that are proportional to
what is kept; here costs may be anything that grows with channels (products of two ratios, measured times), and choices
are rounded to what hardware likes before they are checked, not after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.search.cost import Cost, Levels
from tightwire.compress.search.units import Unit


@dataclass(frozen=True, eq=False)
class Clip:
    """The rule for some units, a cost and a target. B policies are walked side by side."""

    cost: Cost
    target: float
    orders: tuple[NDArray[np.intp], ...]

    def begin(self, policies: int) -> Levels:
        """All units at their cheapest."""
        return np.tile(self.cost.cheapest, (policies, 1))

    def decide_(self, level_BT: Levels, t: int, asked_B: NDArray[np.intp]) -> NDArray[np.intp]:
        """Put into place, and return, what unit ``t`` gets instead of what was asked."""
        order_BC = self.orders[t][asked_B]
        fits_BC = np.take_along_axis(self.cost.around(level_BT, t) <= self.target, order_BC, 1)
        fits_BC[:, -1] = True  # the cheapest: what holds at the beginning
        chosen_B: NDArray[np.intp] = order_BC[np.arange(len(order_BC)), fits_BC.argmax(1)]
        level_BT[:, t] = chosen_B
        return chosen_B

    def walk(self, asked_BT: Levels) -> Levels:
        """Whole policies at once: each unit in turn."""
        level_BT = self.begin(len(asked_BT))
        for t in range(asked_BT.shape[1]):
            self.decide_(level_BT, t, asked_BT[:, t])
        return level_BT


def clip(units: Sequence[Unit], cost: Cost, target: float) -> Clip:
    """The rule; refuses a target that even the cheapest policy exceeds."""
    cost.check(target)
    orders = tuple(unit.order(int(c)) for unit, c in zip(units, cost.cheapest, strict=True))
    return Clip(cost, target, orders)
