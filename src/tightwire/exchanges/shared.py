"""One memory: the workers of a machine hold the very same numbers, and write to them without locks.

    shared()          the weights themselves: every optimizer steps on them    (Recht, Ré, Wright, Niu: Hogwild!. 2011)
    shared_center()   a centre beside them: every worker reads it and writes to it, when its schedule says

Nothing is sent, so there are no transfers. What one worker writes is what all others read, as soon as the machine's
caches agree; two that write one number at once may lose a step, and a read may find some numbers old and some new.
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


@dataclass(frozen=True)
class SharedCenter:
    """All workers move the same centre, each by itself."""

    native: ClassVar[str | None] = None
    pattern: ClassVar[Pattern] = "memory"
    carries: ClassVar[frozenset[Combines]] = frozenset({"sum", "gather"})

    def pieces(self, world: World) -> int:
        """The whole buffer."""
        return 1

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """None."""
        return ()


def shared() -> Shared:
    """One memory under the weights of all workers of a machine."""
    return Shared()


def shared_center() -> SharedCenter:
    """A centre in one memory, beside the weights of each worker."""
    return SharedCenter()


examples = (shared(), shared_center())
