"""Gossip: one random peer instead of everybody.

    pull   worker i takes x_j from a random j ≠ i
    push   worker i gives x_i to a random j ≠ i; some get several, some none

Jin, Yuan, Iandola, Keutzer: How to scale distributed deep learning? arXiv 1611.04581, 2016.
Who meets whom is drawn from the step's shared key, so all workers know it without asking: one message for each worker,
whatever their number, and no waiting for a request.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.codec import Combines
from tightwire.algebra.exchange import Pattern, Transfer
from tightwire.algebra.world import START, At, World


@dataclass(frozen=True)
class Neighbors:
    """Each worker meets one random other. Slot r is rank r's payload."""

    way: Literal["pull", "push"]
    native: ClassVar[str | None] = None
    pattern: ClassVar[Pattern] = "peers"
    carries: ClassVar[frozenset[Combines]] = frozenset({"sum"})

    def pieces(self, world: World) -> int:
        """One slot a rank."""
        return world.size

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """Every worker's meeting in this step."""
        dice = random.Random(at.key(shared=True, salt=f"neighbors {self.way}"))
        made = []
        for rank in range(world.size if world.size > 1 else 0):
            other = (rank + dice.randrange(1, world.size)) % world.size
            src, dst = (other, rank) if self.way == "pull" else (rank, other)
            made.append(Transfer(0, src, dst, src, src + 1, "copy"))
        return made


def neighbors(way: Literal["pull", "push"]) -> Neighbors:
    """Gossip with one random peer a step."""
    return Neighbors(way)


examples = (neighbors("pull"), neighbors("push"))
