"""A worker's side of the parameter server: push what is due, adopt the centre that comes back.

    most recipes      push ─▶ centre after it ─▶ adopt
    elastic, by e     pull ─▶ e = α·(x − c) ─▶ push e; move by the same e          (`Adopt.looks` "before", send c − x)
    elastic, by x     push x ─▶ centre before it ─▶ adopt                          (`Adopt.looks` "before", send x)

Shards in other processes are asked beside each other, else in turn, in the same order by all. In tiers the members of a
group add up their gradients, the first one deals with the server, and the others take the centre from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tightwire.algebra.rule import Rebases
from tightwire.algebra.schedule import Caches, Due, Meta
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.exchanges.server import Server
from tightwire.links.abreast import Question, abreast
from tightwire.links.staging import staging_for
from tightwire.rules.yours import rates
from tightwire.run.freight import Freight
from tightwire.run.lane import Lane
from tightwire.run.parcel import Parcel
from tightwire.run.ranges import settle
from tightwire.run.shards import down_of, groups_of, make_shard, refitted
from tightwire.run.transport import Entry, Transport
from tightwire.server.events import (
    Center,
    Enter,
    Event,
    Export,
    Import,
    Leave,
    Peek,
    Pull,
    Push,
    Rest,
)
from tightwire.telemetry.ledger import Phase


class Client:
    """One lane's dealings with its shards."""

    def __init__(
        self,
        lane: Lane,
        transport: Transport,
        optimizer: torch.optim.Optimizer,
        timeout_s: float,
        phase: int = 0,
        *,
        number: int = 0,
    ) -> None:
        self.lane = lane
        self._phase = phase  # the same recipe in another phase has another server
        self._number = number  # of the lane: servers are spread over the processes
        self._transport = transport
        self._optimizer = optimizer
        self._timeout_s = timeout_s
        assert isinstance(lane.recipe.exchange, Server)
        self._shards = lane.recipe.exchange.shards
        self._me = transport.link.world.rank
        staging = staging_for(next(iter(lane.tensors.values())).device)
        self._freight = Freight(lane, self._shards, down_of(lane.recipe), staging)
        self.versions = [0] * self._shards  # of the centre this worker last read
        self.read = [0] * self._shards  # it holds everybody's steps before these clocks
        self.sequence = 0
        self.dropped = False  # the last push, by all shards
        self._entered = False  # all shards have been asked something
        self._counted = False  # the link itself counts what crosses its sockets

    def enter(self, at: At) -> None:
        """Make the shards if nobody has, and take the centre from them."""
        inner, link = self.lane.leaf.inner, self._transport.link
        self._counted = link.count_with(self._count)
        for members in groups_of(self.lane.leaf, link.world) if inner is not None and inner.exchange.native else ():
            link.prepare(members)  # by all ranks, members or not
        for shard in range(self._shards):  # also by who does not speak for its group: anybody may look
            keeper = self.lane.group.outer[(self._number + shard) % len(self.lane.group.outer)]
            make = partial(make_shard, self.lane, self._optimizer, at, piece=shard, pieces=self._shards)
            link.host(self._name(shard), make, on=keeper)
            self._freight.afar[shard] = link.afar(self._name(shard))
        if self.lane.group.speaks:
            self._adopt(self._ask_all(lambda shard: Enter(self._me, at.step)), at)
            self._entered = True
        self._spread()

    def ready(self, parcel: Parcel) -> None:
        """A bucket of gradients is complete, and will be pushed."""
        self._freight.ready(parcel)

    def meet(self, due: Due, at: At, unused: Set[str] = frozenset()) -> None:
        """Push and pull what is due; ``unused`` tensors have no gradient in this step."""
        self.dropped = False
        if self.lane.leaf.inner is not None and due.push:
            self._add_up()
        if self.lane.group.speaks:
            self._deal(due, at, unused)
        self._spread()
        if self.lane.early and due.push:
            for weight in self.lane.tensors.values():
                weight.grad = None  # the server stepped; the worker's optimizer must not

    def _deal(self, due: Due, at: At, unused: Set[str]) -> None:
        adopt, needs_center = self.lane.recipe.adopt, self.lane.recipe.send.needs_center
        look_first = adopt.looks == "before" and needs_center
        if (due.pull and not due.push) or (due.push and look_first):
            replies = self._ask_all(lambda shard: Pull(self._me, self._meta(shard, at)))
            if not due.push:
                self._adopt(replies, at)
                return
            self._note(replies, at)
        if not due.push:
            return
        sent, wires = self._freight.pack(at, self._transport.ledger)
        pull = due.pull and not look_first and not self._fresh(at)
        replies = self._ask_all(
            lambda shard: Push(
                self._me,
                self.sequence,
                self._meta(shard, at),
                {label: moving.here() for label, moving in wires[shard].items()},
                self._rates(at),
                pull,
                frozenset(unused),
                adopt.looks,
            )
        )
        self.sequence += 1
        self.dropped = all(reply.dropped for reply in replies)
        for parcel in self.lane.parcels:
            settle(parcel, self.lane.compressor, sent[parcel.label], [reply.dropped for reply in replies], at)
        if look_first:
            self._move(at)
        elif needs_center:
            self.lane.recenter()  # what was moved is sent: the next contribution counts from here
        self._adopt(replies, at)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def center(self, at: At) -> dict[str, Tensor]:
        """The centre as it is, by tensor."""
        decoded = self._freight.decode(self._ask_all(lambda shard: Peek(self._me)), at)
        return {name: view for bucket in decoded.values() for name, view in bucket.items()}

    def _fresh(self, at: At) -> bool:
        schedule = self.lane.recipe.schedule
        return isinstance(schedule, Caches) and all(schedule.fresh(at.step + 1, clock) for clock in self.read)

    def _note(self, replies: list[Any], at: At) -> dict[str, Bucket] | None:
        """Remember which centre was read, and the centre itself where it is needed; None if none was sent."""
        if not all(isinstance(reply, Center) for reply in replies):
            return None
        self.versions = [reply.version for reply in replies]
        self.read = [reply.clock for reply in replies]
        decoded = self._freight.decode(replies, at)
        for parcel in self.lane.parcels:
            if parcel.center is not None and not isinstance(self.lane.recipe.adopt, Rebases):
                parcel.center.flat.copy_(decoded[parcel.label].flat)
        return decoded

    @torch.no_grad()
    def _adopt(self, replies: list[Any], at: At) -> None:
        decoded = self._note(replies, at)
        if decoded is None:
            return
        adopt = self.lane.recipe.adopt
        for parcel in self.lane.parcels:
            center = decoded[parcel.label]
            for name, weight in parcel.tensors.items():
                if isinstance(adopt, Rebases) and parcel.center is not None:
                    adopt.rebase_(weight, parcel.center[name], center[name], at)
                else:
                    adopt.adopt_(weight, center[name], at)
            if parcel.center is not None:
                parcel.center.flat.copy_(center.flat)

    @torch.no_grad()
    def _move(self, at: At) -> None:
        """Move by the centre that was read before the push."""
        for parcel in self.lane.parcels:
            assert parcel.center is not None
            for name, weight in parcel.tensors.items():
                self.lane.recipe.adopt.adopt_(weight, parcel.center[name], at)

    # ── inside a group ────────────────────────────────────────────────────────────────────────────────────────────

    def _add_up(self) -> None:
        """The mean over the group, in every member's bucket."""
        inner, members = self.lane.leaf.inner, self.lane.group.inner
        assert inner is not None
        for parcel in self.lane.parcels:
            flat = parcel.x.flat.div_(len(members))
            self._together(lambda flat=flat: self._transport.reduce_(flat, inner.exchange, members, self._entry))  # type: ignore[misc]

    @torch.no_grad()
    def _spread(self) -> None:
        """What the first member of a group has become, to the others."""
        if self.lane.leaf.inner is None:
            return
        for parcel in self.lane.parcels:
            flat = torch.cat([weight.detach().reshape(-1) for weight in parcel.tensors.values()])
            self._together(lambda flat=flat: self._transport.broadcast_(flat, self.lane.group.inner, self._entry))  # type: ignore[misc]
            for weight, piece in zip(
                parcel.tensors.values(), flat.split([w.numel() for w in parcel.tensors.values()]), strict=True
            ):
                weight.copy_(piece.view(weight.shape))

    def _together(self, job: Callable[[], None]) -> None:
        self._transport.link.submit(job).wait(self._timeout_s)

    @property
    def _entry(self) -> Entry:
        return Entry("exchange", self.lane.label)

    # ── beginning, end, and between ───────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: each worker its own counts, rank 0 the shards."""
        shards = self._export() if self._me == 0 else None
        return {"versions": self.versions, "read": self.read, "sequence": self.sequence, "shards": shards}

    def restore(self, own: dict[str, Any], shards: list[dict[str, Any]], *, new_world: bool) -> None:
        """Go on from a checkpoint. In another world, or on other shards, the counts start anew, on both sides."""
        anew = new_world or len(shards) != self._shards
        own, shards = refitted(self.lane, own, shards, pieces=self._shards)
        if self._me == 0:
            self._ask_all(lambda shard: Import(self._me, shards[shard], anew))
        self.versions, self.read = list(own["versions"]), list(own["read"])
        self.sequence = 0 if anew else own["sequence"]
        if new_world:
            self.lane.recenter()

    def staleness(self) -> tuple[dict[int, int], int]:
        """How often contributions of each age were applied, and how many were dropped; over all shards."""
        ages: dict[int, int] = {}
        states = self._export()
        for state in states:
            for age, count in state["staleness"].items():
                ages[age] = ages.get(age, 0) + count
        return ages, sum(state["dropped"] for state in states)

    def rest(self) -> None:
        """Nobody needs to wait for this worker while it waits for all others."""
        if self.lane.group.speaks:
            self._ask_all(lambda shard: Rest(self._me))

    def leave(self) -> None:
        """Nobody needs to wait for this worker any more."""
        if self.lane.group.speaks:
            self._ask_all(lambda shard: Leave(self._me))

    # ── on the wire ───────────────────────────────────────────────────────────────────────────────────────────────

    def _name(self, shard: int) -> str:
        which = "shard" if self._shards == 1 else f"shard {shard}"
        return f"{which} of {self.lane.label}" + (f" in phase {self._phase}" if self._phase else "")

    def _meta(self, shard: int, at: At) -> Meta:
        return Meta(self._me, at.step, self.versions[shard])

    def _rates(self, at: At) -> tuple[float, ...]:
        factor = self.lane.seat.rate(at)
        return tuple(rate * factor for rate in rates(self._optimizer))

    def _export(self) -> list[dict[str, Any]]:
        return [reply.state for reply in self._ask_all(lambda shard: Export(self._me))]

    def _ask_all(self, event: Callable[[int], Event]) -> list[Any]:
        questions = (partial(self._ask, shard, event(shard)) for shard in range(self._shards))
        replies: Iterable[Question] = abreast(questions, self._freight.afar) if self._entered else questions
        return [self._freight.arrived(shard, reply()) for shard, reply in enumerate(replies)]

    def _ask(self, shard: int, event: Event) -> Any:
        reply = self._transport.link.ask(self._name(shard), event, self._transport.timeout_s)
        if not self._counted:  # without a socket: what it would have carried
            tx = sum(wire.nbytes for wire in event.wires.values()) if isinstance(event, Push) else 0
            rx = sum(wire.nbytes for wire in reply.wires.values()) if isinstance(reply, Center) else 0
            self._count(self._name(shard), event, tx, rx)
        return reply

    def _count(self, name: str, event: Event, tx: int, rx: int) -> None:
        """Bytes that crossed for a machine; the one that this process keeps may also have been asked by others."""
        phase: Phase = "exchange" if isinstance(event, Push | Pull) else "setup"
        self._transport.ledger.moved(phase, name, tx=tx, rx=rx, known="counted")
