"""A centre in one memory that nobody guards: every worker reads it and moves it by itself, without locks.

    looks "after"     x ← own contribution;  c ← rule(c, x);  read c, adopt it                    (AsySG-incon)
    looks "before"    read c;  x ← own contribution;  c ← rule(c, x);  adopt what was read        (elastic averaging)

It stands where a server's client stands (`run.serve`) and is asked the same questions. What a worker reads may be half
old and half new, and what two write at once may be lost. Ages are counted without a lock all the same: every worker has
a row of its own in a second memory, and the sum of all rows is how often the centre was moved.

    tally_PA[p, a]    how often worker p moved the centre a updates after it had read it
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from tightwire.algebra.link import Link
from tightwire.algebra.rule import Rebases
from tightwire.algebra.schedule import Due
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.rules.yours import rates
from tightwire.run.assembly import Assembly
from tightwire.run.lane import Lane
from tightwire.run.parcel import Parcel
from tightwire.run.shared import refuse_what_cannot
from tightwire.run.transport import Entry
from tightwire.server.movers import Mover, OptimizerMover, RuleMover

_AGES = 1024  # older contributions are counted as this old
_ENTRY = Entry("setup", "one memory")


class Commons:
    """One lane's dealings with its centre in one memory."""

    def __init__(
        self, lane: Lane, link: Link, assembly: Assembly, optimizer: torch.optim.Optimizer, phase: int = 0
    ) -> None:
        self.lane = lane
        self._phase = phase  # the same recipe in another phase has another memory
        self._link = link
        self._assembly = assembly
        self._optimizer = optimizer
        self._seen = {parcel.label: Bucket.zeros(parcel.x.spec) for parcel in lane.parcels}
        self._memory: dict[str, Bucket] = {}
        self._mover: Mover
        self._tally_PA: Tensor
        self._version = 0  # of the centre this worker last read

    @torch.no_grad()
    def enter(self, at: At) -> None:
        """Lay the centre into the memory, all workers together: it begins as rank 0's weights."""
        refuse_what_cannot(self._link.world, self.lane)
        for parcel in self.lane.parcels:
            spec = parcel.x.spec
            memory = Bucket(self._link.share(self._name(parcel.label), spec.numel, spec.dtype), spec)
            self._memory[parcel.label] = memory
            if at.world.rank == 0:
                for name, weight in parcel.tensors.items():
                    memory[name].copy_(weight)
        tally = self._link.share(self._name("ages"), at.world.size * _AGES, torch.int64)
        self._tally_PA = tally.view(at.world.size, _AGES)
        self._tally_PA[at.world.rank].zero_()
        self._mover = self._make_mover(at)
        self._assembly.everyones(b"", _ENTRY)  # nobody reads before the centre is there
        self._read()

    def _name(self, what: str) -> str:
        return f"{what} of {self.lane.label} in phase {self._phase}"

    def _make_mover(self, at: At) -> Mover:
        rule = self.lane.recipe.center
        if not rule.yours:
            return RuleMover(rule, {label: rule.init(bucket.spec) for label, bucket in self._memory.items()}, at)
        names: dict[Tensor, str] = {weight: name for name, weight in self.lane.tensors.items()}
        return OptimizerMover(self._memory, self._optimizer, names, self.lane.seat)

    # ── reading and writing ───────────────────────────────────────────────────────────────────────────────────────

    def ready(self, parcel: Parcel) -> None:
        """Nothing travels."""

    @torch.no_grad()
    def meet(self, due: Due, at: At, unused: Set[str] = frozenset()) -> None:
        """Move the centre and adopt it, as far as that is due; ``unused`` tensors have no gradient in this step."""
        before = self.lane.recipe.adopt.looks == "before"
        if before:
            self._read()
            self._keep()
        if due.push:
            self._write(at, unused)
        if due.pull:
            if not before:
                self._read()
            self._adopt(at)

    def _read(self) -> None:
        """Take the centre as it is, number by number."""
        self._version = self._moves()
        for label, memory in self._memory.items():
            self._seen[label].flat.copy_(memory.flat)

    def _keep(self) -> None:
        """What was read is the centre that the worker knows."""
        for parcel in self.lane.parcels:
            if parcel.center is not None:
                parcel.center.flat.copy_(self._seen[parcel.label].flat)

    def _write(self, at: At, unused: Set[str]) -> None:
        lane = self.lane
        age = self._moves() - self._version
        weight = lane.recipe.center.weigh(age, 1)
        for parcel in lane.parcels:
            if not lane.early:
                lane.fill(parcel)
            if weight != 1.0:
                parcel.x.flat.mul_(weight)
        factor = lane.seat.rate(at) if lane.recipe.center.yours else 1.0
        total = {parcel.label: parcel.x for parcel in lane.parcels}
        own = tuple(rate * factor for rate in rates(self._optimizer))
        self._mover.step(self._memory, total, own, frozenset(unused))
        self._tally_PA[at.world.rank, min(age, _AGES - 1)] += 1
        if lane.early:
            for tensor in lane.tensors.values():
                tensor.grad = None  # the centre was stepped; the worker's own weights must not be
        elif lane.recipe.adopt.looks == "after":
            lane.recenter()  # what was moved is written: the next contribution counts from here

    def _adopt(self, at: At) -> None:
        adopt = self.lane.recipe.adopt
        for parcel in self.lane.parcels:
            seen = self._seen[parcel.label]
            for name, weight in parcel.tensors.items():
                if isinstance(adopt, Rebases) and parcel.center is not None:
                    adopt.rebase_(weight, parcel.center[name], seen[name], at)
                else:
                    adopt.adopt_(weight, seen[name], at)
        self._keep()

    def _moves(self) -> int:
        """How often the centre was moved, by anybody."""
        return int(self._tally_PA.sum())

    # ── what a server's client is asked, too ──────────────────────────────────────────────────────────────────────

    def center(self, at: At) -> dict[str, Tensor]:
        """The centre as it is, by tensor."""
        return {name: view.clone() for bucket in self._memory.values() for name, view in bucket.items()}

    def staleness(self) -> tuple[dict[int, int], int]:
        """How often the centre was moved at each age, by all workers, since the run or its resumption began."""
        counts = self._tally_PA.sum(0)
        return {age: int(counts[age]) for age in counts.nonzero().flatten().tolist()}, 0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: each worker its own mover's state, rank 0 the centre."""
        first = self._link.world.rank == 0
        centers = {name: view.clone() for bucket in self._memory.values() for name, view in bucket.items()}
        return {"mover": self._mover.state(), "shards": [{"center": centers}] if first else None}

    @torch.no_grad()
    def restore(self, own: dict[str, Any], shards: list[dict[str, Any]], *, new_world: bool) -> None:
        """Go on from a checkpoint; rank 0 puts the centre back. Nobody trains on before all are here."""
        if self._link.world.rank == 0:
            for bucket in self._memory.values():
                for name, view in bucket.items():
                    view.copy_(shards[0]["center"][name])
        self._mover.restore(own["mover"])
        if new_world:
            self.lane.recenter()

    def rest(self) -> None:
        """Nobody ever waits here."""

    def leave(self) -> None:
        """Nobody ever waits here."""
