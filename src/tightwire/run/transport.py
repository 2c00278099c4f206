"""A link with its ledger: collective operations that are executed once and counted once.

Everything here blocks and runs inside a job of the link (`Link.submit`), except `start_native`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from tightwire.algebra.exchange import Exchange, Transfer, elements_moved, part_edges
from tightwire.algebra.link import Link, Pending, Port
from tightwire.algebra.world import World
from tightwire.exchanges import graphs
from tightwire.links.pipes import SMALL_NBYTES
from tightwire.links.rounds import Moved, Route, carry, ended, reduce_
from tightwire.telemetry.ledger import Ledger, Phase

Members = tuple[int, ...]
JOBS, FORWARD, BACKWARD, NUMBERS = 0, 1, 2, 3
"""Message tags: jobs run in one order on all ranks; activations, errors and numbers have an order of their own."""


@dataclass(frozen=True)
class Entry:
    """What the bytes of an operation are for: a row of the ledger, and a name in errors."""

    phase: Phase
    group: str


@dataclass(frozen=True)
class Transport:
    """One worker's way to the others."""

    link: Link
    ledger: Ledger
    timeout_s: float

    def everybody(self) -> Members:
        """All ranks."""
        return tuple(range(self.link.world.size))

    def inside(self, members: Members) -> World:
        """The world as a group of its own sees it."""
        whole = self.link.world
        hosts = tuple(whole.hosts[m] for m in members) if whole.hosts else ()
        return World(members.index(whole.rank), len(members), whole.generation, hosts)

    def start_native(self, flat: Tensor, exchange: Exchange, members: Members, entry: Entry) -> Pending | None:
        """Start the link's own collective in place; None where there is none. Its bytes are modelled."""
        if exchange.native is None or len(members) == 1:
            return None
        pending = self.link.native(exchange.native, flat, members)
        if pending is not None:
            world = self.inside(members)
            edges = part_edges(flat.numel(), exchange.pieces(world))
            tx, rx = elements_moved(exchange.transfers(world), edges, world.rank)
            size = flat.element_size()
            self.ledger.moved(entry.phase, entry.group, tx=tx * size, rx=rx * size, known="modelled")
        return pending

    def reduce_(
        self,
        flat: Tensor,
        exchange: Exchange,
        members: Members,
        entry: Entry,
        combine: Literal["sum", "max"] = "sum",
    ) -> None:
        """All-reduce in place."""
        native = self.start_native(flat, exchange, members, entry) if combine == "sum" else None
        if native is not None:
            native.wait(self.timeout_s)
            return
        world = self.inside(members)
        self._rounds(flat, exchange.transfers(world), exchange.pieces(world), members, entry, combine)

    def broadcast_(self, flat: Tensor, members: Members, entry: Entry) -> None:
        """The first member's tensor to all members, in place."""
        self._rounds(flat, graphs.broadcast(len(members)), 1, members, entry)

    def gather(self, wire: Tensor, members: Members, capacity: int, entry: Entry) -> list[Tensor]:
        """Everybody's bytes, in rank order."""
        slots: list[Tensor | None] = [None] * len(members)
        slots[self.inside(members).rank] = wire
        transfers, capacities = graphs.all_to_all_copy(len(members)), [capacity] * len(members)
        everyone = ended(self.carry(slots, transfers, capacities, members, entry))
        return [said for said in everyone if said is not None]

    def carry(
        self,
        slots: list[Tensor | None],
        transfers: Sequence[Transfer],
        capacity: Sequence[int],
        members: Members,
        entry: Entry,
    ) -> Generator[None, None, list[Tensor | None]]:
        """Move payloads between slots, step by step (`links.rounds.carry`); what was not for this rank stays None."""
        home = next(slot.device for slot in slots if slot is not None)
        on_wire = [None if slot is None else self._stage(slot.contiguous()) for slot in slots]
        small = max(capacity) <= SMALL_NBYTES
        route = self._route(members, entry, self.link.framed if small else self.link.port)
        moved = yield from carry(route, on_wire, transfers, capacity)
        self._count(entry, moved)
        return [None if slot is None else slot.to(home) for slot in on_wire]

    def _rounds(
        self,
        flat: Tensor,
        transfers: Sequence[Transfer],
        pieces: int,
        members: Members,
        entry: Entry,
        combine: Literal["sum", "max"] = "sum",
    ) -> None:
        staged = self._stage(flat)
        self._count(entry, reduce_(self._route(members, entry, self.link.port), staged, transfers, pieces, combine))
        if staged is not flat:
            flat.copy_(staged)

    def _stage(self, tensor: Tensor) -> Tensor:
        device = self.link.wire_device
        return tensor if device is None or tensor.device.type == device.type else tensor.to(device)

    def _route(self, members: Members, entry: Entry, port: Port) -> Route:
        label = f"{entry.phase} of {entry.group}"
        return Route(port, members, self.inside(members).rank, JOBS, self.timeout_s, label)

    def _count(self, entry: Entry, moved: Moved) -> None:
        self.ledger.moved(entry.phase, entry.group, tx=moved.tx, rx=moved.rx, known="counted")
