"""When weights go: the density a layer has after a part of pruning, from all weights to the density wanted.

    one_shot    d                                          at once
    in_rounds   d^((k+1)/n)          in round k of n       the same share of what is left, each time
    cubic       d + (1 − d)(1 − t)³                        fast while much is redundant, then slower and slower

In rounds: Han, Pool, Tran, Dally: Learning both Weights and Connections for Efficient Neural Networks. NIPS 2015.
Cubic: Zhu, Gupta: To prune, or not to prune. ICLR workshops 2018, arXiv 1710.01878.
A schedule is a function of the density wanted and of how much of the time for pruning has passed, from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tightwire.compress.errors import CompressError


class Schedule(Protocol):
    """The density at a time."""

    def density(self, final: float, passed: float) -> float:
        """The density when the part ``passed`` of the time for pruning is over; ``final`` at 1."""


@dataclass(frozen=True)
class _OneShot:
    def density(self, final: float, passed: float) -> float:
        return final


@dataclass(frozen=True)
class _InRounds:
    rounds: int

    def density(self, final: float, passed: float) -> float:
        if final <= 0:
            return 0.0
        done = min(int(passed * self.rounds) + 1, self.rounds)
        return float(final ** (done / self.rounds))


@dataclass(frozen=True)
class _Cubic:
    def density(self, final: float, passed: float) -> float:
        return final + (1 - final) * (1 - min(max(passed, 0.0), 1.0)) ** 3


def one_shot() -> Schedule:
    """Everything at the beginning."""
    return _OneShot()


def in_rounds(rounds: int) -> Schedule:
    """Prune and retrain, so many times over.

    >>> [round(in_rounds(2).density(0.25, passed), 3) for passed in (0.0, 0.4, 0.5, 1.0)]
    [0.5, 0.5, 0.25, 0.25]
    """
    if rounds < 1:
        raise CompressError(f"rounds={rounds}: pruning takes at least 1")
    return _InRounds(rounds)


def cubic() -> Schedule:
    """Zhu and Gupta's.

    >>> [round(cubic().density(0.1, passed), 3) for passed in (0.0, 0.5, 1.0)]
    [1.0, 0.213, 0.1]
    """
    return _Cubic()
