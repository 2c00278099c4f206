"""A parameter shard as a state machine without I/O: event in, replies out.

    Push ─▶ decode ─▶ schedule.admit ─▶ APPLY  every held contribution, weighed, steps the centre; version + 1
                                     ├▶ HOLD   until others have come
                                     ├▶ DROP   the worker is told, so that its memory takes it back
                                     └▶ WAIT   as if it had not come; asked again after every event
    Pull ─▶ parked ─▶ schedule.serve ─▶ Center, at once or after a later event

Held contributions are added in the order of their workers, so what the centre becomes does not depend on who came
first. A push that was already taken (a retry after a lost reply) is answered again and not applied again. Workers may
come and go: one that enters late is counted level with the slowest, whatever its own count of steps says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from tightwire.algebra.codec import Codec, drive
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.rule import Measures, Rule
from tightwire.algebra.schedule import Gathers, Meta, Schedule, Verdict, View
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.server import memo
from tightwire.server.events import (
    Center,
    Enter,
    Event,
    Export,
    Exported,
    Import,
    Leave,
    Peek,
    Pull,
    Push,
    Reply,
    Rest,
    Taken,
)
from tightwire.server.inspect import decoded
from tightwire.server.memo import Held
from tightwire.server.movers import Mover

Replies = list[tuple[int, Reply]]


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
    offsets: dict[int, int] = field(default_factory=dict)  # of a late-comer's own count of steps
    resting: set[int] = field(default_factory=set)
    taken: dict[int, tuple[int, bool]] = field(default_factory=dict)  # each worker's last push: sequence, dropped?
    held: list[Held] = field(default_factory=list)
    waiting: list[Held] = field(default_factory=list)  # came too early to be admitted
    parked: list[tuple[Meta, bool]] = field(default_factory=list)
    before: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # the centre as it was at a worker's last push
    given: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # what each worker read, if the rule measures
    staleness: Counter[int] = field(default_factory=Counter)
    dropped: int = 0

    def handle(self, event: Event) -> Replies:
        """React to one event."""
        match event:
            case Enter(worker, clock):
                self.before.pop(worker, None)
                self._enter(worker, clock)
                return [(worker, self._give(worker))]
            case Peek(worker) | Export(worker):
                seen = Center(self.version, self._encoded()) if isinstance(event, Peek) else Exported(self.state())
                return [(worker, seen)]
            case Leave(worker) | Rest(worker):
                return self._step_aside(worker, for_good=isinstance(event, Leave))
            case Import(worker, state, new_world):
                memo.restore(self, state, new_world=new_world)
                return [(worker, Taken(self.version))]
            case Push():
                return self._push(event)
            case Pull(worker, meta):
                self.before.pop(worker, None)
                self._park(self._shifted(meta), False)
                return self._wake()

    def view(self) -> View:
        """What schedules see: the workers that take part now."""
        active = {worker: clock for worker, clock in self.clocks.items() if worker not in self.resting}
        return View(self.version, active, tuple(held.meta for held in self.held))

    def awaited(self) -> tuple[int, ...]:
        """Who takes part now and neither waits to be admitted nor to read."""
        here = {early.meta.worker for early in self.waiting} | {meta.worker for meta, _ in self.parked}
        return tuple(sorted(set(self.view().clocks) - here))

    # ── coming and going ──────────────────────────────────────────────────────────────────────────────────────────

    def _enter(self, worker: int, clock: int) -> None:
        if worker not in self.clocks:
            level = min(self.clocks.values(), default=clock)
            self.clocks[worker], self.offsets[worker] = level, level - clock
            self.taken.pop(worker, None)

    def _step_aside(self, worker: int, *, for_good: bool) -> Replies:
        """Others may have waited for this worker. When all of them rest they have met, and all take part again."""
        replies: Replies = [(worker, Taken(self.version))]
        if for_good:
            self.clocks.pop(worker, None)
            self.resting.discard(worker)
        else:
            self.resting.add(worker)
        self._complete()
        replies += self._go_on()
        if self.resting >= set(self.clocks):
            self.resting.clear()
        return replies

    def _shifted(self, meta: Meta) -> Meta:
        return replace(meta, clock=meta.clock + self.offsets.get(meta.worker, 0))

    # ── contributions ─────────────────────────────────────────────────────────────────────────────────────────────

    def _push(self, push: Push) -> Replies:
        last, dropped = self.taken.get(push.worker, (-1, False))
        if push.sequence < last:
            raise PayloadError(
                f"worker {push.worker} pushed number {push.sequence} after number {last}: a push of long ago",
                reason="replayed",
            )
        if push.sequence == last:  # repeated
            if not push.pull:
                return [(push.worker, Taken(self.version, dropped))]
            self._park(self._shifted(push.meta), dropped)
            return self._wake()
        values = self._decode(push)  # before anything is noted: a bad payload leaves the shard as it was
        self.resting.discard(push.worker)
        arrived = Held(
            self._shifted(push.meta), values, push.rates, push.unused, push.sequence, push.pull, push.looks
        )  # fmt: skip
        self.waiting = [early for early in self.waiting if early.meta.worker != push.worker] + [arrived]
        return self._go_on()

    def _go_on(self) -> Replies:
        """Admit whoever may be admitted now; after each, answer whoever may read now, before the next one counts."""
        replies: Replies = []
        while (arrived := next(filter(self._admit, self.waiting), None)) is not None:
            self.waiting.remove(arrived)
            worker = arrived.meta.worker
            dropped = self.taken[worker][1]
            if arrived.pull:
                self._park(arrived.meta, dropped)
            else:
                replies.append((worker, Taken(self.version, dropped)))
            if isinstance(self.schedule, Gathers):
                self._complete()
            replies += self._wake()
        return replies + self._wake()

    def _admit(self, arrived: Held) -> bool:
        """Take a contribution as the schedule says; False if it should wait."""
        meta = arrived.meta
        view = self.view()
        clock = max(self.clocks.get(meta.worker, 0), meta.clock + 1)
        verdict = self.schedule.admit(replace(view, clocks={**view.clocks, meta.worker: clock}), meta)
        if verdict is Verdict.WAIT:
            return False
        self.clocks[meta.worker] = clock
        self.before.pop(meta.worker, None)
        self.taken[meta.worker] = (arrived.sequence, verdict is Verdict.DROP)
        if verdict is Verdict.DROP:
            self.dropped += 1
            return True
        self.held.append(arrived)
        if verdict is Verdict.APPLY:
            self._apply(arrived)
        return True

    def _complete(self) -> None:
        """What is held may be complete by now, because of who came or left: ask again, the oldest first."""
        for held in sorted(self.held, key=lambda held: held.meta.clock):
            if held not in self.held:  # went with another
                continue
            view = self.view()
            others = tuple(other.meta for other in self.held if other is not held)
            if self.schedule.admit(replace(view, held=others), held.meta) is Verdict.APPLY:
                self._apply(held)

    def _apply(self, last: Held) -> None:
        """One update of the centre by everything that goes together with ``last``."""
        schedule, view = self.schedule, self.view()
        alone = isinstance(schedule, Gathers)
        together = [
            held for held in self.held
            if held is last or not alone or schedule.joins(held.meta, last.meta)  # type: ignore[attr-defined]
        ]  # fmt: skip
        self.held = [held for held in self.held if held not in together]
        together.sort(key=lambda held: (held.meta.worker, held.meta.clock))
        total = {label: Bucket.zeros(bucket.spec) for label, bucket in self.center.items()}
        for held in together:
            age = view.staleness(held.meta)
            self.staleness[age] += 1
            weight = self.rule.weigh(age, len(together)) * self._trust(held)
            for label, value in held.values.items():
                total[label].flat.add_(value.flat, alpha=weight)
            if held.looks == "before" and held.pull:
                self.before[held.meta.worker] = self._encoded()
        idle = frozenset.intersection(*(held.unused for held in together))
        self.mover.step(self.center, total, last.rates, idle)
        self.version += 1

    def _trust(self, held: Held) -> float:
        """How much a rule that measures trusts a contribution, by how far the centre has moved since it was read."""
        read = self.given.get(held.meta.worker)
        if not isinstance(self.rule, Measures) or read is None:
            return 1.0
        moved = sum(float((bucket.flat - read[label]).square().sum()) for label, bucket in self.center.items())
        return self.rule.trust(moved, held.rates[0] if held.rates else self.at.lr)

    def _decode(self, push: Push) -> dict[str, Bucket]:
        return decoded(push.wires, self.center, self.up, self.at, worker=push.worker)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _park(self, meta: Meta, dropped: bool) -> None:
        """Wait for the schedule's leave to read; a worker waits once, however often it asks."""
        self.parked = [(waiting, was) for waiting, was in self.parked if waiting.worker != meta.worker]
        self.parked.append((meta, dropped))

    def _wake(self) -> Replies:
        view = self.view()
        ready = [entry for entry in self.parked if self.schedule.serve(view, entry[0])]
        self.parked = [entry for entry in self.parked if entry not in ready]
        return [(meta.worker, self._give(meta.worker, dropped)) for meta, dropped in ready]

    def _give(self, worker: int, dropped: bool = False) -> Center:
        """The centre for a worker, with how far everybody has come in that worker's count."""
        slowest = min(self.view().clocks.values(), default=self.clocks.get(worker, 0))
        if isinstance(self.rule, Measures):
            self.given[worker] = {label: bucket.flat.clone() for label, bucket in self.center.items()}
        wires = self.before.get(worker)
        wires = self._encoded() if wires is None else wires
        return Center(self.version, wires, dropped, slowest - self.offsets.get(worker, 0))

    def brief(self, reply: Reply) -> Reply:
        """What to remember of a reply that may have to be given again: the centre itself is here."""
        match reply:
            case Center():
                return replace(reply, wires={})
            case Exported():
                return Exported({})
            case _:
                return reply

    def again(self, worker: int, brief: Reply) -> Reply:
        """The reply again: the centre as it is now, or as it was before the worker's push if that was asked for."""
        match brief:
            case Center():
                return self._give(worker, brief.dropped)
            case Exported():
                return Exported(self.state())
            case _:
                return brief

    def _encoded(self) -> dict[str, Tensor]:
        return {
            label: drive(self.down.encode(bucket, {}, self.at), _nobody_to_ask).payload.wire
            for label, bucket in self.center.items()
        }

    def state(self) -> dict[str, Any]:
        """Everything the shard knows, by tensor name."""
        return memo.state_of(self)


def _nobody_to_ask(ask: object) -> Tensor:
    raise PayloadError("a codec of several rounds cannot speak for a server; use a codec of one round")
