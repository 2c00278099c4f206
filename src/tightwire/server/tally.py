"""A machine that counts what it was told, for simulations: 0 is lost, 2 is twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tightwire.algebra.link import Machine


class Mark(NamedTuple):
    """A worker's contribution number ``number``."""

    worker: int
    number: int


@dataclass
class Tally:
    """Counts marks. With ``together`` a worker is answered when all of those have come as far as it."""

    together: tuple[int, ...] = ()
    marks: Counter[Mark] = field(default_factory=Counter)
    reached: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)

    def handle(self, mark: Mark) -> list[tuple[int, Any]]:
        """Count it, and answer who may go on."""
        self.marks[mark] += 1
        self.reached[mark.worker] = mark.number
        self.waiting[mark.worker] = mark.number
        slowest = min((self.reached.get(worker, -1) for worker in self.together), default=mark.number)
        ready = [worker for worker, number in self.waiting.items() if number <= slowest]
        return [(worker, self.waiting.pop(worker)) for worker in ready]


class Workload(Protocol):
    """What a simulated world does with machines of some kind: how to make, tell, copy and read them."""

    def make(self) -> Machine:
        """A new one."""
        ...

    def event(self, mark: Mark) -> Any:
        """A contribution as the machine takes it."""
        ...

    def copy(self, machine: Any) -> Any:
        """Everything it knows."""
        ...

    def revive(self, state: Any) -> Machine:
        """A machine that knows it."""
        ...

    def applied(self, machine: Any) -> Mapping[Mark, int]:
        """How often each contribution was applied."""
        ...


@dataclass(frozen=True)
class Tallies:
    """A world of tallies."""

    together: tuple[int, ...] = ()

    def make(self) -> Tally:
        """An empty one."""
        return Tally(self.together)

    def event(self, mark: Mark) -> Mark:
        """The mark itself."""
        return mark

    def copy(self, machine: Tally) -> Any:
        """Everything it knows."""
        return Counter(machine.marks), dict(machine.reached), dict(machine.waiting)

    def revive(self, state: Any) -> Tally:
        """A machine that knows it."""
        marks, reached, waiting = state
        return Tally(self.together, Counter(marks), dict(reached), dict(waiting))

    def applied(self, machine: Tally) -> Counter[Mark]:
        """How often each contribution was applied."""
        return machine.marks
