"""What a search decides: units, one after another, and the choices each has.

A unit is a layer (single weights are pruned) or a group of channels that must go together. Its choices form a grid:

    action in [0, 1]^A  →  a place on each of A axes  →  one choice      A = 1: how much;  3: how much, pattern, bits

`Unit.order` says which choice takes the place of one that is too dear: the nearest on the grid below it, and last of
all the cheapest there is. He, Lin, Liu, Wang, Li, Han: AMC: AutoML for Model Compression and Acceleration on Mobile
Devices. ECCV 2018, arXiv 1802.03494, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError


@dataclass(frozen=True)
class Choice:
    """One way to treat a unit: what share is kept, in how many channels or weights; ``bits`` None is not shared."""

    ratio: float
    kept: int
    pattern: str = "fine"
    bits: int | None = None


@dataclass(frozen=True)
class Shape:
    """What the state says of a unit: kernel n×c×k×k, input c×h×w, and the stride."""

    n: int
    c: int
    h: int
    w: int
    stride: int
    k: int


@dataclass(frozen=True, eq=False)
class Unit:
    """One decision. ``choices`` is the grid of ``axes``, row by row; the first axis is how much is kept, ascending.

    ``whole`` is how many channels or weights there are in all; a layer that was pruned before cannot keep as many.
    """

    name: str
    shape: Shape
    whole: int
    axes: tuple[int, ...]
    choices: tuple[Choice, ...]

    def __post_init__(self) -> None:
        """Refuse a grid that is not full."""
        if int(np.prod(self.axes)) != len(self.choices) or not self.choices:
            raise CompressError(f"{self.name} has {len(self.choices)} choices where its axes {self.axes} want others")

    def asked(self, action: Sequence[float]) -> int:
        """The choice that an action means: the nearest place on every axis.

        >>> unit = Unit("u", Shape(1, 1, 1, 1, 1, 1), 5, (3,), tuple(Choice(r, 1) for r in (0.2, 0.6, 1.0)))
        >>> [unit.asked([a]) for a in (0.0, 0.3, 0.8, 1.0)]
        [0, 1, 2, 2]
        """
        place = [
            round(min(max(float(a), 0.0), 1.0) * (length - 1)) for a, length in zip(action, self.axes, strict=True)
        ]
        return int(np.ravel_multi_index(place, self.axes))

    def action(self, choice: int) -> tuple[float, ...]:
        """The action in the middle of what means this choice."""
        place = np.unravel_index(choice, self.axes)
        return tuple(float(p) / max(1, length - 1) for p, length in zip(place, self.axes, strict=True))

    def order(self, cheapest: int) -> NDArray[np.intp]:
        """For each choice, all choices in the order in which they stand in for it; ``cheapest`` is always the last."""
        return self._order(cheapest)

    @cached_property
    def _places(self) -> NDArray[np.float64]:
        grid = product(*(range(length) for length in self.axes))
        place_CA = np.array(list(grid), np.float64) / np.maximum(1, np.array(self.axes) - 1)
        return np.asarray(place_CA, np.float64)

    def _order(self, cheapest: int) -> NDArray[np.intp]:
        place_CA = self._places
        below_CC = (place_CA[None, :, :] <= place_CA[:, None, :]).all(-1)  # not more, not finer, nor another pattern
        if place_CA.shape[1] > 1:
            below_CC &= place_CA[None, :, 1] == place_CA[:, None, 1]
        distance_CC = np.abs(place_CA[:, None, :] - place_CA[None, :, :]).sum(-1)
        key_CC = np.where(below_CC, distance_CC, 1e3 + distance_CC)
        key_CC[:, cheapest] = np.where(np.arange(len(place_CA)) == cheapest, -1.0, 1e6)
        found: NDArray[np.intp] = np.argsort(key_CC, axis=1, kind="stable")
        return found


def grid(
    densities: Sequence[float], numel: int, *, patterns: Sequence[str], bits: Sequence[int | None]
) -> tuple[Choice, ...]:
    """Every density with every pattern and every number of bits, in the order of `Unit.choices`."""
    return tuple(
        Choice(density, round(density * numel), pattern, width)
        for density, pattern, width in product(densities, patterns, bits)
    )
