"""One memory: the workers of a machine hold the very same weights, and write to them without locks.

Nothing is sent, so there are no transfers. What one worker's optimizer writes is what all others read, as soon as the
machine's caches agree; two that write one number at once may lose a step (Recht, Ré, Wright, Niu: Hogwild!. NIPS 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.codec import Combines
from tightwire.algebra.exchange import Pattern, Transfer
from tightwire.algebra.world import START, At, World


@dataclass(frozen=True)
class Shared:
    """All workers step on the same tensors."""

    one_memory: ClassVar[bool] = True
    native: ClassVar[str | None] = None
    pattern: ClassVar[Pattern] = "nobody"
    carries: ClassVar[frozenset[Combines]] = frozenset({"sum", "gather"})

    def pieces(self, world: World) -> int:
        """The whole buffer."""
        return 1

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """None."""
        return ()


def shared() -> Shared:
    """One memory for all workers of a machine."""
    return Shared()


examples = (shared(),)
