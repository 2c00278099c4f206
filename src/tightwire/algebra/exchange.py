"""The `exchange` axis: with whom a worker exchanges, as data.

An exchange lists its `Transfer`s. The runtime executes the list, the ledger counts it, the planner prices it:
there is no second description of who talks to whom.

A buffer is cut into ``pieces`` equal parts and a transfer moves parts lo..hi−1 of it from ``src`` to ``dst``:

    ring, 3 workers, round 0      round 1              rounds 2, 3
    0 ─ part 0 ─▶ 1  (add)        0 ─ part 2 ─▶ 1      the same ring again, op "copy":
    1 ─ part 1 ─▶ 2               1 ─ part 0 ─▶ 2      every part is now the sum of all
    2 ─ part 2 ─▶ 0               2 ─ part 1 ─▶ 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from tightwire.algebra.codec import Combines
from tightwire.algebra.world import START, At, World

Pattern = Literal["reduce", "gather", "owners", "peers", "server", "memory", "nobody"]
"""The shape of an exchange, which decides where encoding and decoding happen:

    reduce   encode → payloads are added on the way → decode once
    gather   encode → every payload reaches everybody → decode each
    owners   encode a piece for each owner → owner decodes, adds, encodes again → everybody decodes
    peers    encode → some payloads reach some workers → each takes the mean of its own and what it got
    server   encode → a parameter server decodes, applies its rule → the centre comes back
    memory   nothing leaves: every worker reads and writes one centre by itself, without locks
    nobody   nothing leaves
"""


@dataclass(frozen=True)
class Transfer:
    """Parts lo..hi−1 go from ``src`` to ``dst`` in ``round``; there they are added or copied in."""

    round: int
    src: int
    dst: int
    lo: int
    hi: int
    op: Literal["add", "copy"]


@runtime_checkable
class Exchange(Protocol):
    """With whom.

    Laws (`tightwire.testing.exchanges`): the transfers give every rank the sum (``reduce``), everybody's part
    (``gather``, ``owners``) or somebody's (``peers``); nobody sends what it does not have, or what the other has; bytes
    equal the published count.
    """

    @property
    def pattern(self) -> Pattern:
        """The shape of the exchange."""
        ...

    @property
    def carries(self) -> frozenset[Combines]:
        """Which kinds of payload may ride it."""
        ...

    @property
    def native(self) -> str | None:
        """The collective of `torch.distributed` that does the same, if the fast path may be used."""
        ...

    def pieces(self, world: World) -> int:
        """Into how many parts a buffer is cut."""
        ...

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        """Every transfer of every rank, in round order: the same list on all ranks, at any one moment."""
        ...


@runtime_checkable
class TwoWay(Protocol):
    """An exchange that goes up and down: `transfers` is the way up."""

    def down(self, world: World) -> Sequence[Transfer]:
        """The way down."""
        ...


@runtime_checkable
class OneMemory(Protocol):
    """An exchange without messages: all workers hold the very same memory."""

    @property
    def one_memory(self) -> bool:
        """True."""
        ...


@runtime_checkable
class Switches(Protocol):
    """An exchange that may carry a payload in the dense format instead. All ranks must decide alike."""

    def densely(self, capacity: int, dense_nbytes: int, world: World) -> bool:
        """Whether the dense format is the cheaper one."""
        ...


def part_edges(numel: int, pieces: int) -> list[int]:
    """Where the parts of a buffer of ``numel`` elements begin, and where the last one ends.

    >>> part_edges(10, 4)
    [0, 3, 6, 8, 10]
    """
    size, extra = divmod(numel, pieces)
    edges = [0]
    for part in range(pieces):
        edges.append(edges[-1] + size + (part < extra))
    return edges


def elements_moved(transfers: Sequence[Transfer], edges: Sequence[int], rank: int) -> tuple[int, int]:
    """Elements that ``rank`` sends and receives: what a ledger must find, and what a planner prices."""
    sent = sum(edges[t.hi] - edges[t.lo] for t in transfers if t.src == rank)
    received = sum(edges[t.hi] - edges[t.lo] for t in transfers if t.dst == rank)
    return sent, received
