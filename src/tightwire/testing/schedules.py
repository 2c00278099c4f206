"""The laws of schedules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.schedule import Gathers, Meta, Schedule, Verdict, View


def check_all(schedule: Schedule) -> None:
    """Every law."""
    for law in (due_by_clock_alone, everybody_is_served):
        law(schedule)


def due_by_clock_alone(schedule: Schedule) -> None:
    """Asking does not change the answer, and an exchange comes again and again."""
    first = [schedule.due(clock) for clock in range(200)]
    assert [schedule.due(clock) for clock in range(200)] == first
    if not schedule.lockstep:  # who exchanges only together may do so at the end alone
        assert any(due.push for due in first), "nothing is ever pushed"
        assert any(due.pull for due in first[100:]), "the centre is never read again"


def everybody_is_served(schedule: Schedule) -> None:
    """In whatever order workers push and then read, each is served; when they have left, nothing is held any more."""

    @given(st.integers(1, 5).flatmap(lambda workers: st.permutations(range(workers))), st.integers(1, 3))
    def law(order: list[int], rounds: int) -> None:
        room = _Room(schedule, View(clocks=dict.fromkeys(order, 0)))
        due = [clock for clock in range(200) if schedule.due(clock).push][:rounds]
        for clock in due or range(rounds):
            for worker in order:
                room.push(worker, clock)
            assert not room.waiting, f"after everybody's push {room.waiting} still wait"
        for worker in order:
            room.leave(worker)
        assert not room.view.held, f"when everybody has left {room.view.held} are still held"

    law()


@dataclass
class _Room:
    """A shard without tensors: only what a schedule decides."""

    schedule: Schedule
    view: View
    early: list[Meta] = field(default_factory=list)
    waiting: list[Meta] = field(default_factory=list)
    read: dict[int, int] = field(default_factory=dict)  # the version each worker read last

    def push(self, worker: int, clock: int) -> None:
        meta = Meta(worker, clock, self.read.get(worker, 0))
        self.early.append(meta)
        self.waiting.append(meta)
        while any(self._admit(early) for early in list(self.early)):
            pass
        for served in [meta for meta in self.waiting if meta not in self.early]:
            if self.schedule.serve(self.view, served):
                self.waiting.remove(served)
                self.read[served.worker] = self.view.version

    def leave(self, worker: int) -> None:
        self.view = replace(self.view, clocks={w: c for w, c in self.view.clocks.items() if w != worker})
        for held in sorted(self.view.held, key=lambda held: held.clock):
            others = tuple(other for other in self.view.held if other != held)
            if held in self.view.held and self.schedule.admit(replace(self.view, held=others), held) is Verdict.APPLY:
                self._apply(held, others)

    def _admit(self, meta: Meta) -> bool:
        counted = replace(self.view, clocks={**self.view.clocks, meta.worker: meta.clock + 1})
        verdict = self.schedule.admit(counted, meta)
        if verdict is Verdict.WAIT:
            return False
        self.early.remove(meta)
        self.view = counted
        if verdict is Verdict.APPLY:
            self._apply(meta, self.view.held)
        elif verdict is Verdict.HOLD:
            self.view = replace(self.view, held=(*self.view.held, meta))
        return True

    def _apply(self, last: Meta, others: tuple[Meta, ...]) -> None:
        schedule = self.schedule
        left = tuple(m for m in others if isinstance(schedule, Gathers) and not schedule.joins(m, last))
        self.view = replace(self.view, version=self.view.version + 1, held=left)
