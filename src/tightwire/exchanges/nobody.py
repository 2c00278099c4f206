"""Nobody: the worker's tensors are its own (a stage of a split model, a run of one)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.codec import Combines
from tightwire.algebra.exchange import Pattern, Transfer
from tightwire.algebra.world import START, At, World


@dataclass(frozen=True)
class Nobody:
    """Nothing leaves."""

    native: ClassVar[str | None] = None
    pattern: ClassVar[Pattern] = "nobody"
    carries: ClassVar[frozenset[Combines]] = frozenset({"sum", "gather"})

    def pieces(self, world: World) -> int:
        """The whole buffer."""
        return 1

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """None."""
        return ()


def nobody() -> Nobody:
    """Nothing leaves."""
    return Nobody()


examples = (nobody(),)
