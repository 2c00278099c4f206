"""A number that may change during the run: a constant, or a function of the moment (`schedules.ramps`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tightwire.algebra.world import At

Knob: TypeAlias = float | Callable[[At], float]


def value_at(knob: Knob, at: At) -> float:
    """The knob's value now.

    >>> value_at(0.25, At()), value_at(lambda at: 0.5 ** at.step, At(step=2))
    (0.25, 0.25)
    """
    return knob(at) if callable(knob) else knob
