"""A parameter shard's clocks without its tensors: the recipe's own `Schedule` decides who is applied, held and served.

It does what `server.shard.Shard` does, event by event (a law compares them), and nothing that takes time for each
worker of the world, so that thousands of them can be simulated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tightwire.algebra.schedule import Gathers, Meta, Schedule, Verdict, View


class Answer(NamedTuple):
    """To whom; whether its contribution was dropped; whether the centre goes with it."""

    worker: int
    dropped: bool
    center: bool


@dataclass
class Desk:
    """Clocks, versions, and who waits."""

    schedule: Schedule
    clocks: dict[int, int]
    version: int = 0
    held: list[Meta] = field(default_factory=list)
    waiting: list[tuple[Meta, bool]] = field(default_factory=list)
    parked: list[tuple[Meta, bool]] = field(default_factory=list)
    staleness: Counter[int] = field(default_factory=Counter)
    dropped: int = 0
    _was_dropped: dict[int, bool] = field(default_factory=dict)
    _asked: int = 0  # so many of the parked were told to wait
    _moved: tuple[int, ...] | None = None  # and this was the state of affairs

    def __post_init__(self) -> None:
        self._gathers = isinstance(self.schedule, Gathers)

    def push(self, meta: Meta, *, pull: bool) -> list[Answer]:
        """A contribution has come."""
        if self.waiting or not self._admit(meta):
            self.waiting.append((meta, pull))
            return self._go_on()
        answers = self._taken(meta, pull)  # nobody waits, as nearly always: then nothing has to be looked through
        return answers + self._wake() if self.parked else answers

    def pull(self, meta: Meta) -> list[Answer]:
        """A worker wants to read."""
        self.parked.append((meta, False))
        return self._wake()

    def leave(self, worker: int) -> list[Answer]:
        """A worker takes part no more."""
        self.clocks.pop(worker, None)
        self._complete()
        return self._go_on()

    def _view(self) -> View:
        return View(self.version, self.clocks, tuple(self.held))

    def _go_on(self) -> list[Answer]:
        answers: list[Answer] = []
        again = True
        while again:
            again = False
            for arrived in self.waiting:
                if self._admit(arrived[0]):
                    self.waiting.remove(arrived)
                    answers += self._taken(*arrived)
                    again = bool(self.waiting)
                    break
        return answers + self._wake() if self.parked else answers

    def _taken(self, meta: Meta, pull: bool) -> list[Answer]:
        dropped = self._was_dropped.pop(meta.worker, False)
        answers = []
        if pull:
            self.parked.append((meta, dropped))
        else:
            answers.append(Answer(meta.worker, dropped, False))
        if self._gathers:
            self._complete()
        return answers + self._wake()

    def _admit(self, meta: Meta) -> bool:
        """Take a contribution as the schedule says; False if it should wait."""
        before = self.clocks.get(meta.worker)
        self.clocks[meta.worker] = max(before or 0, meta.clock + 1)
        verdict = self.schedule.admit(self._view(), meta)
        if verdict is Verdict.WAIT:
            if before is None:
                del self.clocks[meta.worker]
            else:
                self.clocks[meta.worker] = before
            return False
        if verdict is Verdict.DROP:
            self.dropped += 1
            self._was_dropped[meta.worker] = True
            return True
        self.held.append(meta)
        if verdict is Verdict.APPLY:
            self._apply(meta)
        return True

    def _apply(self, last: Meta) -> None:
        schedule = self.schedule
        if self._gathers:
            joins = schedule.joins  # type: ignore[attr-defined]
            together = [held for held in self.held if held is last or joins(held, last)]
            self.held = [held for held in self.held if held not in together]
        else:
            together, self.held = self.held, []
        for held in together:
            self.staleness[self.version - held.version] += 1
        self.version += 1

    def _complete(self) -> None:
        for held in sorted(self.held, key=lambda held: held.clock):
            if held not in self.held:
                continue
            others = tuple(other for other in self.held if other is not held)
            if self.schedule.admit(View(self.version, self.clocks, others), held) is Verdict.APPLY:
                self._apply(held)

    def _wake(self) -> list[Answer]:
        """Whoever may read now. Those who could not are asked again when something has moved."""
        if not self.parked:
            return []
        view = self._view()
        if len(self.parked) == 1 and not self._asked and self.schedule.serve(view, self.parked[0][0]):
            meta, dropped = self.parked.pop()
            return [Answer(meta.worker, dropped, True)]
        moved = None
        if self._asked:
            moved = (self.version, len(self.held), min(self.clocks.values(), default=0), len(self.clocks))
        again = self.parked if moved != self._moved else self.parked[self._asked :]
        ready = [entry for entry in again if self.schedule.serve(view, entry[0])]
        if ready:
            self.parked = [entry for entry in self.parked if entry not in ready]
        self._asked, self._moved = len(self.parked), moved
        return [Answer(meta.worker, dropped, True) for meta, dropped in ready]
