"""Rules that weigh a contribution by its age, or do not average.

    staleness-aware   1/(c·max(1, t))      t updates old, among c            your optimizer on the server
    in sum            1                                                       your optimizer on the server
    discounted        1/(t + 1)                                               added to the centre
    by distance       1/(1 + ‖c − c_read‖²/η)                                 added to the centre

Zhang, Gupta, Lian, Liu: Staleness-aware Async-SGD for Distributed Deep Learning. IJCAI 2016, arXiv 1511.05950.
Lian, Huang, Li, Liu: Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization. NIPS 2015.
Hermans: On Scalable Deep Learning and Parallelizing Gradient Descent. Maastricht University, 2017 (DynSGD, ADAG).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.knob import Knob
from tightwire.algebra.rule import Kind
from tightwire.rules.bodies import factor_now, in_full, keeps_nothing, never_called, subtract, unchanged


@dataclass(frozen=True)
class StalenessAware:
    """The user's optimizer, its rate divided by the age of each gradient. Ages 0 and 1 count alike."""

    scale: Knob = 1.0
    yours: ClassVar[bool] = True
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    init = keeps_nothing
    rate = factor_now
    prepare_ = unchanged
    step_ = never_called

    def weigh(self, staleness: int, together: int) -> float:
        """The mean, each divided by its age."""
        return 1 / (together * max(1, staleness))


@dataclass(frozen=True)
class InSum:
    """The user's optimizer on the sum, not the mean, of what is applied together."""

    scale: Knob = 1.0
    yours: ClassVar[bool] = True
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    weigh = in_full
    init = keeps_nothing
    rate = factor_now
    prepare_ = unchanged
    step_ = never_called


@dataclass(frozen=True)
class Discounted:
    """What was sent is subtracted from the centre, divided by its age + 1."""

    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    init = keeps_nothing
    step_ = subtract

    def weigh(self, staleness: int, together: int) -> float:
        """By age."""
        return 1 / (staleness + 1)


@dataclass(frozen=True)
class ByDistance:
    """What was sent is subtracted from the centre, the less the farther the centre has moved since it was read."""

    yours: ClassVar[bool] = False
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    weigh = in_full
    init = keeps_nothing
    step_ = subtract

    def trust(self, moved_squared: float, lr: float) -> float:
        """1/(1 + ‖c − c_read‖²/η).

        >>> ByDistance().trust(0.0, 0.1), ByDistance().trust(0.75, 0.25)
        (1.0, 0.25)
        """
        return 1 / (1 + moved_squared / lr) if moved_squared else 1.0


def staleness_aware(scale: Knob = 1.0) -> StalenessAware:
    """Your optimizer, less for older gradients."""
    return StalenessAware(scale)


def in_sum(scale: Knob = 1.0) -> InSum:
    """Your optimizer, on sums."""
    return InSum(scale)


def discounted() -> Discounted:
    """Add, less for older contributions."""
    return Discounted()


def by_distance() -> ByDistance:
    """Add, less where the centre has moved away."""
    return ByDistance()


examples = (staleness_aware(), in_sum(), discounted(), by_distance())
