"""Who runs next in a world of one process: in turn, as a seed says, or by pretended time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Order = Callable[[Sequence[int], int], int]
"""Given the workers that can run and the one that last did, says who runs next."""


def in_turn(able: Sequence[int], last: int) -> int:
    """The next rank after the last one.

    >>> in_turn([0, 2], 1), in_turn([0, 2], 2)
    (2, 0)
    """
    return min(able, key=lambda rank: (rank <= last, rank))


def shuffled(seed: int) -> Order:
    """Anybody, as a seed decides: another interleaving for every seed, the same one each time."""
    dice = random.Random(seed)
    return lambda able, last: dice.choice(list(able))


@dataclass
class Earliest:
    """Whoever's pretended time is earliest; among equals, the next rank after the last one.

    >>> Earliest([3.0, 1.0, 2.0])([0, 2], 1)
    2
    """

    times: list[float] = field(default_factory=list)  # the world's, once it has this order

    def __call__(self, able: Sequence[int], last: int) -> int:
        """The earliest."""
        return min(able, key=lambda rank: (self.times[rank], rank <= last, rank))
