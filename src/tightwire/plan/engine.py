"""Time that is computed, not waited for: events in a heap, processes as generators, cores that are shared.

    def worker(engine):
        yield 0.5                  half a second passes
        yield gate                 until somebody opens the gate
        yield Busy(0, 0.3)         0.3 s of work on machine 0, longer if others work there

A gate that is open lets everybody through. Work on a machine with fewer cores than workers is shared evenly: with n at
work each advances at the rate 1 ÷ slowdown(n), which was measured.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any


class Gate:
    """Closed until it has been opened ``needed`` times."""

    __slots__ = ("needed", "waiting")

    def __init__(self, needed: int = 1) -> None:
        self.needed = needed
        self.waiting: list[Process] = []


@dataclass(frozen=True, slots=True)
class Busy:
    """Work on a machine."""

    machine: int
    seconds: float


Process = Generator[float | Gate | Busy, None, None]


class Engine:
    """The clock and what is to happen.

    >>> engine, seen = Engine(), []
    >>> def sleeper(): yield 2.0; seen.append(engine.now)
    >>> engine.start(sleeper()); engine.run(); seen
    [2.0]
    """

    def __init__(self, slowdown: Callable[[int], float] | None = None) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Any, Any]] = []
        self._number = count()
        self._slowdown = slowdown
        self._machines: dict[int, _Machine] = {}
        self.over = False  # set by whoever has seen enough

    def at(self, time_s: float, call: Callable[..., None], argument: Any = None) -> None:
        """Call at a time."""
        heappush(self._heap, (time_s, next(self._number), call, argument))

    def start(self, process: Process) -> None:
        """Let a process begin now."""
        self.at(self.now, self._resume, process)

    def open(self, gate: Gate) -> None:
        """Open a gate once; when that was the last time needed, whoever waits goes on."""
        gate.needed -= 1
        if gate.needed <= 0 and gate.waiting:
            waiting, gate.waiting = gate.waiting, []
            for process in waiting:
                self._resume(process)

    def run(self) -> None:
        """Until nothing is left to happen, or enough has; without the garbage collector, which would look at all that
        waits again and again (a third of the time of thousands of workers), and finds nothing.
        """
        heap, collecting = self._heap, gc.isenabled()
        gc.disable()
        try:
            while heap and not self.over:
                self.now, _, call, argument = heappop(heap)
                call(argument)
        finally:
            if collecting:
                gc.enable()

    def _resume(self, process: Process) -> None:
        """Let a process run to its next wait."""
        for wish in process:
            if type(wish) is float:
                if wish > 0:
                    heappush(self._heap, (self.now + wish, next(self._number), self._resume, process))
                    return
            elif type(wish) is Gate:
                if wish.needed > 0:
                    wish.waiting.append(process)
                    return
            else:
                assert type(wish) is Busy
                if wish.seconds > 0:
                    self._work(wish, process)
                    return

    def _work(self, wish: Busy, process: Process) -> None:
        if self._slowdown is None:
            heappush(self._heap, (self.now + wish.seconds, next(self._number), self._resume, process))
            return
        machine = self._machines.setdefault(wish.machine, _Machine())
        self._advance(machine)
        machine.work.append([wish.seconds, process])
        self._schedule(machine)

    def _advance(self, machine: _Machine) -> None:
        """Everybody at work on a machine has done some since it was last looked at."""
        assert self._slowdown is not None
        if machine.work:
            done = (self.now - machine.looked_s) / self._slowdown(len(machine.work))
            for task in machine.work:
                task[0] -= done
        machine.looked_s = self.now

    def _schedule(self, machine: _Machine) -> None:
        assert self._slowdown is not None
        machine.version += 1
        if machine.work:
            soonest = max(0.0, min(task[0] for task in machine.work)) * self._slowdown(len(machine.work))
            self.at(self.now + soonest, self._finish, (machine, machine.version))

    def _finish(self, which: tuple[_Machine, int]) -> None:
        machine, version = which
        if version != machine.version:
            return  # somebody came or went since
        self._advance(machine)
        least = min(task[0] for task in machine.work)
        done = [task for task in machine.work if task[0] <= least + 1e-12]
        machine.work = [task for task in machine.work if task[0] > least + 1e-12]
        self._schedule(machine)
        for _, process in done:
            self._resume(process)


class _Machine:
    """Who is at work on shared cores: seconds left, and whose."""

    def __init__(self) -> None:
        self.work: list[list[Any]] = []
        self.looked_s = 0.0
        self.version = 0
