"""A parameter server: workers push contributions and pull the centre, each at its own pace.

On the wire this is a star whose middle is not a worker, so it has no transfers between ranks: a push carries one
payload up, a pull one copy of the centre down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.codec import Combines
from tightwire.algebra.exchange import Pattern, Transfer
from tightwire.algebra.world import START, At, World


@dataclass(frozen=True)
class Server:
    """Workers meet the centre, never each other."""

    native: ClassVar[str | None] = None
    pattern: ClassVar[Pattern] = "server"
    carries: ClassVar[frozenset[Combines]] = frozenset({"sum", "gather"})

    def pieces(self, world: World) -> int:
        """The whole buffer at once."""
        return 1

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """None between ranks."""
        return ()


def server() -> Server:
    """A parameter server."""
    return Server()


examples = (server(),)
