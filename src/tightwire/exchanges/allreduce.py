"""All-reduce: everybody gets the sum.

| graph             | rounds    | bytes each worker sends        |
|-------------------|-----------|--------------------------------|
| ring              | 2(P−1)    | 2(P−1)/P · n                   |
| halving-doubling  | 2 log₂P   | 2(P−1)/P · n   (P a power of 2)|
| multi-ring        | Σ2(P_i−1) | 2(P−1)/P · n                   |
| tree              | 2⌈log₂P⌉  | ⌈log₂P⌉ · n at the root        |

`allreduce` lets the link use its own collective (gloo's, NCCL's), whose bytes are then modelled as a ring's.
Ring and tree: Patarasu & Yuan 2009; FireCaffe (arXiv 1511.00175). Halving-doubling: Thakur et al. 2005, as used by
Goyal et al. (arXiv 1706.02677). Multi-dimensional ring: PowerAI DDL (arXiv 1708.02188).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import ClassVar, Literal

from tightwire.algebra.codec import Combines
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.exchange import Pattern, Transfer
from tightwire.algebra.world import START, At, World
from tightwire.exchanges import graphs

Graph = Literal["ring", "tree", "halving-doubling", "multi-ring"]


@dataclass(frozen=True)
class AllReduce:
    """Sum over all workers, along one of four graphs."""

    graph: Graph
    native: str | None = None
    dims: tuple[int, ...] | None = None
    pattern: ClassVar[Pattern] = "reduce"
    carries: ClassVar[frozenset[Combines]] = frozenset({"sum"})

    def pieces(self, world: World) -> int:
        """Parts of the buffer."""
        match self.graph:
            case "tree":
                return 1
            case "halving-doubling":
                return 1 << (world.size.bit_length() - 1)
            case _:
                return world.size

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """Every transfer of every rank."""
        return _transfers(self.graph, self._dims(world))

    def _dims(self, world: World) -> tuple[int, ...]:
        if self.graph != "multi-ring":
            return (world.size,)
        dims = self.dims or graphs.most_square(world.size)
        if prod(dims) != world.size:
            raise RecipeError(
                f"multi_ring(dims={dims}) makes a grid of {prod(dims)} workers, the world has {world.size}; "
                "give dims whose product is the number of workers, or none"
            )
        return dims


@lru_cache(maxsize=256)
def _transfers(graph: Graph, dims: tuple[int, ...]) -> tuple[Transfer, ...]:
    match graph:
        case "ring" | "multi-ring":
            return tuple(graphs.multi_ring(dims))
        case "halving-doubling":
            return tuple(graphs.halving_doubling(dims[0]))
        case "tree":
            return tuple(graphs.tree(dims[0]))


def allreduce() -> AllReduce:
    """The link's own collective where it has one, else a ring."""
    return AllReduce("ring", native="all_reduce")


def ring() -> AllReduce:
    """Our ring: bytes are counted."""
    return AllReduce("ring")


def tree() -> AllReduce:
    """Our binomial tree: fewest rounds, whole buffers."""
    return AllReduce("tree")


def halving_doubling() -> AllReduce:
    """Our recursive halving-doubling: few rounds, a ring's bytes."""
    return AllReduce("halving-doubling")


def multi_ring(*dims: int) -> AllReduce:
    """Our multi-dimensional ring, fastest links in the first dimension; without ``dims`` the grid is nearly square."""
    return AllReduce("multi-ring", dims=dims or None)


examples = (allreduce(), ring(), tree(), halving_doubling(), multi_ring())
