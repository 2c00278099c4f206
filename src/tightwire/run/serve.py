"""A worker's side of the parameter server: push what is due, adopt the centre that comes back."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import torch
from torch import Tensor

from tightwire.algebra.codec import Ask, Payload, drive
from tightwire.algebra.compressor import Compressed
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import Ways
from tightwire.algebra.schedule import Due, Meta
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.codecs.dense import dense
from tightwire.rules.yours import rates
from tightwire.run.lane import Lane
from tightwire.run.parcel import Parcel
from tightwire.run.transport import Transport
from tightwire.server.movers import OptimizerMover, RuleMover
from tightwire.server.shard import Center, Enter, Event, Export, Import, Leave, Pull, Push, Shard, Taken
from tightwire.telemetry.ledger import Phase


class Client:
    """One lane's dealings with its shard."""

    def __init__(self, lane: Lane, transport: Transport, optimizer: torch.optim.Optimizer, timeout_s: float) -> None:
        self.lane = lane
        self._transport = transport
        self._optimizer = optimizer
        self._timeout_s = timeout_s
        self._name = f"shard of {lane.label}"
        self._me = transport.link.world.rank
        self._down = lane.recipe.codec.down if isinstance(lane.recipe.codec, Ways) else dense()
        self.version = 0
        self.sequence = 0

    def enter(self, at: At) -> None:
        """Make the shard if nobody has, and take the centre from it."""
        self._transport.link.host(self._name, lambda: self._make_shard(at))
        self._adopt(self._ask(Enter(self._me), 0), at)

    def meet(self, due: Due, at: At, unused: Set[str] = frozenset()) -> None:
        """Push and pull what is due; ``unused`` tensors have no gradient in this step."""
        meta = Meta(self._me, at.step, self.version)
        if not due.push:
            if due.pull:
                self._adopt(self._ask(Pull(self._me, meta), 0), at)
            return
        sent = {}
        for parcel in self.lane.parcels:
            if not self.lane.early:
                self.lane.fill(parcel)
            sent[parcel.label] = self._compress(parcel, at)
        wires = {label: done.payload.wire for label, done in sent.items()}
        push = Push(self._me, self.sequence, meta, wires, self._rates(at), due.pull, frozenset(unused))
        self.sequence += 1
        reply = self._ask(push, sum(wire.nbytes for wire in wires.values()))
        self._settle(sent, reply.dropped, at)
        self._adopt(reply, at)
        if self.lane.early:
            for weight in self.lane.tensors.values():
                weight.grad = None  # the server stepped; the worker's optimizer must not

    def center(self, at: At) -> dict[str, Tensor]:
        """The centre as it is, by tensor."""
        reply = self._ask(Pull(self._me, Meta(self._me, at.step, self.version)), 0)
        assert isinstance(reply, Center)
        return {name: view for bucket in self._decode(reply, at).values() for name, view in bucket.items()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: each worker its own count, rank 0 the shard."""
        shard = self._ask(Export(self._me), 0).state if self._me == 0 else None
        return {"version": self.version, "sequence": self.sequence, "shard": shard}

    def staleness(self) -> dict[int, int]:
        """How often contributions of each age were applied."""
        ages: dict[int, int] = self._ask(Export(self._me), 0).state["staleness"]
        return ages

    def restore(self, own: dict[str, Any], shard: dict[str, Any], *, new_world: bool) -> None:
        """Go on from a checkpoint. In another world the counts start anew, on both sides."""
        if self._me == 0:
            self._ask(Import(self._me, shard, new_world), 0)
        self.version = own["version"]
        self.sequence = 0 if new_world else own["sequence"]

    def leave(self) -> None:
        """Nobody needs to wait for this worker any more."""
        self._ask(Leave(self._me), 0)

    def _rates(self, at: At) -> tuple[float, ...]:
        factor = self.lane.seat.rate(at)
        return tuple(rate * factor for rate in rates(self._optimizer))

    def _compress(self, parcel: Parcel, at: At) -> Compressed:
        assert parcel.kept is not None
        done = drive(self.lane.compressor.compress(parcel.x, parcel.kept, at), _nobody_answers)
        self._transport.ledger.produced(done.payload.nbytes)
        return done

    def _settle(self, sent: Mapping[str, Compressed], dropped: bool, at: At) -> None:
        for parcel in self.lane.parcels:
            assert parcel.kept is not None
            self.lane.compressor.settle(sent[parcel.label], parcel.x, parcel.kept, at)
            if dropped:
                self.lane.recipe.up[0].refund(sent[parcel.label].sent, parcel.kept.memory)

    def _ask(self, event: Event, tx: int) -> Any:
        reply = self._transport.link.ask(self._name, event, self._timeout_s)
        rx = sum(wire.nbytes for wire in reply.wires.values()) if isinstance(reply, Center) else 0
        phase: Phase = "exchange" if isinstance(event, Push | Pull) else "setup"
        self._transport.ledger.moved(phase, self.lane.label, tx=tx, rx=rx, known="counted")
        return reply

    def _decode(self, reply: Center, at: At) -> dict[str, Bucket]:
        decoded = {}
        for parcel in self.lane.parcels:
            decoded[parcel.label] = Bucket.zeros(parcel.x.spec)
            self._down.decode_(decoded[parcel.label], Payload(reply.wires[parcel.label]), {}, at)
        return decoded

    @torch.no_grad()
    def _adopt(self, reply: Center | Taken, at: At) -> None:
        self.version = reply.version
        if not isinstance(reply, Center):
            return
        decoded = self._decode(reply, at)
        for parcel in self.lane.parcels:
            center = decoded[parcel.label]
            if parcel.center is not None:
                parcel.center.flat.copy_(center.flat)
            for name, weight in parcel.tensors.items():
                self.lane.recipe.adopt.adopt_(weight, center[name], at)

    def _make_shard(self, at: At) -> Shard:
        center = {}
        for parcel in self.lane.parcels:
            center[parcel.label] = Bucket.zeros(parcel.x.spec)
            for name, weight in parcel.tensors.items():
                center[parcel.label][name].copy_(weight.detach())
        rule = self.lane.recipe.center
        names: dict[Tensor, str] = {
            weight: name for parcel in self.lane.parcels for name, weight in parcel.tensors.items()
        }
        mover = (
            OptimizerMover(center, self._optimizer, names, self.lane.seat)
            if rule.yours
            else RuleMover(rule, {label: rule.init(bucket.spec) for label, bucket in center.items()}, at)
        )
        return Shard(center, rule, mover, self.lane.recipe.schedule, self.lane.recipe.up[1], self._down, at)


def _nobody_answers(ask: Ask) -> Tensor:
    raise RecipeError("a codec that asks all workers cannot be used with a server; use exchange=allreduce()")
