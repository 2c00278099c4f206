"""All-gather: everybody gets everybody's payload.

A worker sends (P−1)·S bytes for a payload of S. A dense ring all-reduce of n bytes sends 2(P−1)/P·n, which is less as
soon as S·P > 2n: then the *selected* values travel in the dense format instead (`format="cheaper"`). The selection
stays as it is. All ranks decide alike, because they decide from the codec's capacity and the number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from tightwire.algebra.codec import Combines
from tightwire.algebra.exchange import Pattern, Transfer
from tightwire.algebra.world import START, At, World
from tightwire.exchanges import graphs


@dataclass(frozen=True)
class Gather:
    """Every payload to everybody, in one round."""

    format: Literal["cheaper", "as_encoded"] = "cheaper"
    native: ClassVar[str | None] = None
    pattern: ClassVar[Pattern] = "gather"
    carries: ClassVar[frozenset[Combines]] = frozenset({"gather"})

    def pieces(self, world: World) -> int:
        """One slot a rank."""
        return world.size

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """Every transfer of every rank."""
        return graphs.all_to_all_copy(world.size)

    def densely(self, capacity: int, dense_nbytes: int, world: World) -> bool:
        """Whether the dense format is the cheaper one.

        >>> Gather().densely(600, 1000, World(size=4)), Gather().densely(400, 1000, World(size=4))
        (True, False)
        """
        return self.format == "cheaper" and capacity * world.size > 2 * dense_nbytes


def gather(format: Literal["cheaper", "as_encoded"] = "cheaper") -> Gather:
    """Every payload to everybody, densely where that is cheaper."""
    return Gather(format)


examples = (gather(), gather("as_encoded"))
