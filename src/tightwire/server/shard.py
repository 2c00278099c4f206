"""A parameter shard as a state machine without I/O: event in, replies out.

    Push ─▶ decode ─▶ schedule.admit ─▶ APPLY  every held contribution, weighed, steps the centre; version + 1
                                     ├▶ HOLD   until others have come
                                     └▶ DROP   the worker is told, so that its memory takes it back
    Pull ─▶ parked ─▶ schedule.serve ─▶ Center, at once or after a later event

Held contributions are added in the order of their workers, so what the centre becomes does not depend on who came
first. A push that was already taken (a retry after a lost reply) is answered again and not applied again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from tightwire.algebra.codec import Codec, Payload, drive
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.rule import Rule
from tightwire.algebra.schedule import Meta, Schedule, Verdict, View
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At


@dataclass(frozen=True)
class Enter:
    """A worker begins: it is counted from now on and is given the centre."""

    worker: int


@dataclass(frozen=True)
class Leave:
    """A worker ends: nobody waits for it any more."""

    worker: int


@dataclass(frozen=True)
class Push:
    """A contribution, and whether the worker then wants the centre.

    ``rates`` are its optimizer's learning rates; ``unused`` names tensors it has no gradient for.
    """

    worker: int
    sequence: int
    meta: Meta
    wires: Mapping[str, Tensor]
    rates: tuple[float, ...] = ()
    pull: bool = True
    unused: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Pull:
    """A worker wants the centre."""

    worker: int
    meta: Meta


@dataclass(frozen=True)
class Center:
    """The centre, encoded, at a version; ``dropped`` says that the push before it was not used."""

    version: int
    wires: Mapping[str, Tensor]
    dropped: bool = False


@dataclass(frozen=True)
class Taken:
    """The push arrived."""

    version: int
    dropped: bool = False


@dataclass(frozen=True)
class Export:
    """Somebody wants everything the shard knows."""

    worker: int


@dataclass(frozen=True)
class Exported:
    """Everything the shard knows."""

    state: dict[str, Any]


@dataclass(frozen=True)
class Import:
    """Be as this state says; in a ``new_world`` workers' clocks and sequences start anew."""

    worker: int
    state: dict[str, Any]
    new_world: bool


Event = Enter | Leave | Push | Pull | Export | Import
Reply = Center | Taken | Exported


class Mover(Protocol):
    """Moves the centre by a weighed sum: the shard's side of the `center` axis. Nobody used ``idle`` tensors."""

    def step(
        self,
        center: Mapping[str, Bucket],
        total: Mapping[str, Bucket],
        rates: tuple[float, ...],
        idle: frozenset[str],
    ) -> None:
        """Move every bucket of the centre."""
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        ...


@dataclass
class Held:
    """A contribution that waits for others."""

    meta: Meta
    values: Mapping[str, Bucket]
    rates: tuple[float, ...] = ()
    unused: frozenset[str] = frozenset()


@dataclass
class Shard:
    """The machine. Everything it knows is in its fields."""

    center: dict[str, Bucket]
    rule: Rule
    mover: Mover
    schedule: Schedule
    up: Codec
    down: Codec
    at: At
    version: int = 0
    clocks: dict[int, int] = field(default_factory=dict)
    taken: dict[int, tuple[int, bool]] = field(default_factory=dict)  # each worker's last push: sequence, dropped?
    held: list[Held] = field(default_factory=list)
    parked: list[tuple[Meta, bool]] = field(default_factory=list)
    staleness: Counter[int] = field(default_factory=Counter)
    dropped: int = 0

    def handle(self, event: Event) -> list[tuple[int, Reply]]:
        """React to one event."""
        match event:
            case Enter(worker):
                self.clocks.setdefault(worker, 0)
                return [(worker, self._center())]
            case Leave(worker):
                self.clocks.pop(worker, None)
                replies: list[tuple[int, Reply]] = [(worker, Taken(self.version))]
                self._apply_if_complete()
                return replies + self._wake()
            case Export(worker):
                return [(worker, Exported(self.state()))]
            case Import(worker, state, new_world):
                self.restore(state, new_world=new_world)
                return [(worker, Taken(self.version))]
            case Push():
                return self._push(event)
            case Pull(_, meta):
                return self._park(meta, False)

    def state(self) -> dict[str, Any]:
        """Everything the shard knows, by tensor name."""
        return {
            "center": _by_name(self.center),
            "mover": deepcopy(self.mover.state()),
            "version": self.version,
            "clocks": dict(self.clocks),
            "taken": dict(self.taken),
            "held": [
                {
                    "meta": dict(vars(held.meta)),
                    "values": _by_name(held.values),
                    "rates": held.rates,
                    "unused": sorted(held.unused),
                }
                for held in self.held
            ],
            "staleness": dict(self.staleness),
            "dropped": self.dropped,
        }

    def restore(self, state: dict[str, Any], *, new_world: bool) -> None:
        """Be as a state says."""
        _copy_by_name(self.center, state["center"])
        self.mover.restore(deepcopy(state["mover"]))
        self.version, self.dropped = state["version"], state["dropped"]
        self.staleness = Counter(state["staleness"])
        self.clocks = {} if new_world else dict(state["clocks"])
        self.taken = {} if new_world else {worker: tuple(last) for worker, last in state["taken"].items()}
        self.held = []
        for held in state["held"]:
            values = {label: Bucket.zeros(bucket.spec) for label, bucket in self.center.items()}
            _copy_by_name(values, held["values"])
            self.held.append(Held(Meta(**held["meta"]), values, tuple(held["rates"]), frozenset(held["unused"])))

    def view(self) -> View:
        """What schedules see."""
        return View(self.version, dict(self.clocks), tuple(held.meta for held in self.held))

    def _push(self, push: Push) -> list[tuple[int, Reply]]:
        last, dropped = self.taken.get(push.worker, (-1, False))
        if push.sequence > last:
            values = self._decode(push)  # before anything is noted: a bad payload leaves the shard as it was
            self.clocks[push.worker] = max(self.clocks.get(push.worker, 0), push.meta.clock + 1)
            dropped = self._admit(Held(push.meta, values, push.rates, push.unused))
            self.taken[push.worker] = (push.sequence, dropped)
        if not push.pull:
            return [(push.worker, Taken(self.version, dropped)), *self._wake()]
        return self._park(push.meta, dropped)

    def _park(self, meta: Meta, dropped: bool) -> list[tuple[int, Reply]]:
        """Wait for the schedule's leave to read; a worker waits once, however often it asks."""
        self.parked = [(waiting, was) for waiting, was in self.parked if waiting.worker != meta.worker]
        self.parked.append((meta, dropped))
        return self._wake()

    def _decode(self, push: Push) -> dict[str, Bucket]:
        if set(push.wires) != set(self.center):
            raise PayloadError(
                f"worker {push.worker} pushed {sorted(push.wires)}, this shard holds {sorted(self.center)}"
            )
        values = {}
        for label, wire in push.wires.items():
            values[label] = Bucket.zeros(self.center[label].spec)
            self.up.decode_(values[label], Payload(wire), {}, self.at)
        return values

    def _admit(self, held: Held) -> bool:
        match self.schedule.admit(self.view(), held.meta):
            case Verdict.DROP:
                self.dropped += 1
                return True
            case Verdict.HOLD:
                self.held.append(held)
            case Verdict.APPLY:
                self.held.append(held)
                self._apply()
        return False

    def _apply(self) -> None:
        rates = self.held[-1].rates
        together = sorted(self.held, key=lambda held: (held.meta.worker, held.meta.clock))
        view = self.view()
        total = {label: Bucket.zeros(bucket.spec) for label, bucket in self.center.items()}
        for held in together:
            age = view.staleness(held.meta)
            self.staleness[age] += 1
            weight = self.rule.weigh(age, len(together))
            for label, value in held.values.items():
                total[label].flat.add_(value.flat, alpha=weight)
        idle = frozenset.intersection(*(held.unused for held in together))
        self.mover.step(self.center, total, rates, idle)
        self.version += 1
        self.held.clear()

    def _apply_if_complete(self) -> None:
        """Whoever left may have been the one the others were held for."""
        if self.held:
            self._admit(self.held.pop())

    def _wake(self) -> list[tuple[int, Reply]]:
        view = self.view()
        ready = [(meta, dropped) for meta, dropped in self.parked if self.schedule.serve(view, meta)]
        self.parked = [entry for entry in self.parked if entry not in ready]
        return [(meta.worker, self._center(dropped)) for meta, dropped in ready]

    def _center(self, dropped: bool = False) -> Center:
        wires = {}
        for label, bucket in self.center.items():
            wires[label] = drive(self.down.encode(bucket, {}, self.at), _nobody_to_ask).payload.wire
        return Center(self.version, wires, dropped)


def _by_name(buckets: Mapping[str, Bucket]) -> dict[str, Tensor]:
    return {name: view.clone() for bucket in buckets.values() for name, view in bucket.items()}


def _copy_by_name(buckets: Mapping[str, Bucket], tensors: Mapping[str, Tensor]) -> None:
    for bucket in buckets.values():
        for name, view in bucket.items():
            view.copy_(tensors[name])


def _nobody_to_ask(ask: object) -> Tensor:
    raise PayloadError("a codec of several rounds cannot speak for a server; use a codec of one round")
