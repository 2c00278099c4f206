"""Every worker owns 1/P of the tensors: it adds up everybody's piece, encodes the sum again and sends it to all.

    up     worker i ── piece j, encoded ──▶ owner j      (P−1)/P of a payload
    down   owner j ── sum, encoded again ──▶ everybody   (P−1)/P of a payload

Seide et al. 2014 exchange one-bit gradients this way. The second encoding loses again, so it has a memory of its own:
``codec=ways(up=…, down=…)``, ``memory=ways(up=…, down=…)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.codec import Combines
from tightwire.algebra.exchange import Pattern, Transfer
from tightwire.algebra.world import START, At, World
from tightwire.exchanges import graphs


@dataclass(frozen=True)
class Owners:
    """Pieces to their owners; `down` brings the encoded sums back."""

    native: ClassVar[str | None] = None
    pattern: ClassVar[Pattern] = "owners"
    carries: ClassVar[frozenset[Combines]] = frozenset({"sum", "gather"})

    def pieces(self, world: World) -> int:
        """One slot for each pair of sender and owner."""
        return world.size**2

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """The way up."""
        return graphs.to_owners(world.size)

    def down(self, world: World) -> Sequence[Transfer]:
        """The way down: slot j is owner j's sum."""
        return graphs.all_to_all_copy(world.size)


def owners() -> Owners:
    """Pieces to their owners, encoded sums back."""
    return Owners()


examples = (owners(),)
