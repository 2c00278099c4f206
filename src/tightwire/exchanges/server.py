"""A parameter server: workers push contributions and pull the centre, each at its own pace.

On the wire this is a star whose middle is not a worker, so it has no transfers between ranks: a push carries one
payload up, a pull one copy of the centre down. The centre may be cut by ranges of rows over several shards, each a
machine of its own with its own version (Li et al.: Scaling Distributed Machine Learning with the Parameter Server.
OSDI 2014); with one worker nobody can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tightwire.algebra.codec import Combines
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.exchange import Pattern, Transfer
from tightwire.algebra.world import START, At, World


@dataclass(frozen=True)
class Server:
    """Workers meet the centre, never each other."""

    shards: int = 1
    native: ClassVar[str | None] = None
    pattern: ClassVar[Pattern] = "server"
    carries: ClassVar[frozenset[Combines]] = frozenset({"sum", "gather"})

    def __post_init__(self) -> None:
        if self.shards < 1:
            raise RecipeError(f"server(shards={self.shards}): the centre lies on at least one shard")

    def pieces(self, world: World) -> int:
        """The whole buffer at once."""
        return 1

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """None between ranks."""
        return ()


def server(shards: int = 1) -> Server:
    """A parameter server of one or several shards."""
    return Server(shards)


examples = (server(), server(3))
