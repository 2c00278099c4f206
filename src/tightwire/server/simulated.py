"""One simulated world: servers, workers, a network and its weather, on a clock that jumps from event to event.

The machines are those of the real servers (`Replica`, `Views`, `Once`); only time, network and processes are made up.
Some time into it the faults end; what must hold then is said in `server.verdict`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tightwire.server.bugs import Bug
from tightwire.server.chain import Elsewhere, Lost, Member, View, Where
from tightwire.server.once import Once, Request, Response, Unknown
from tightwire.server.replica import VIEWS, Effects, Replica
from tightwire.server.tally import Mark, Tallies, Workload
from tightwire.server.verdict import settled, who_waits, wrong
from tightwire.server.views import Views
from tightwire.server.weather import FAULTS, MOVES, Fault, Weather

_TICK_MS = 30.0
_PATIENCE_MS = 110.0  # until a silent server is left out
_RETRY_MS = 70.0
_CALM_MS = 600.0  # when faults end
_END_MS = 6000.0  # by then all must be done
_THINKS_MS = 120.0  # at most, between two of them


@dataclass
class Process:
    """A server: its copies, and whether it runs."""

    replicas: dict[str, Replica]
    runs: bool = True
    paused_until_ms: float = 0.0


@dataclass
class Worker:
    """Contributes, waits to be told, asks again, goes where the view says."""

    number: int
    shard: str
    head: str
    life: int = 1
    begun: int = 0
    asks: Request | None = None
    acknowledged: list[Mark] = field(default_factory=list)
    gave_up: bool = False


@dataclass
class World:
    """One seed's world. `run` says what went wrong."""

    seed: int
    bug: Bug | None = None
    trace: Callable[[str], None] | None = None
    workload: Callable[[tuple[int, ...]], Workload] = Tallies  # of the workers that go in step, if any
    share: int = 6  # contributions of a worker
    now_ms: float = 0.0

    def __post_init__(self) -> None:
        """Draw everything that is decided beforehand."""
        rng = self.rng = random.Random(self.seed)
        replicas = rng.choice((2, 2, 3)) if self.seed % 8 != 7 else 1  # then who has it all is never struck down
        self.shards = [f"shard {i}" for i in range(rng.choice((1, 1, 2, 3)))]
        self.weather = Weather.draw(rng, _CALM_MS, FAULTS if replicas > 1 else MOVES)
        self.views = Views(replicas, _PATIENCE_MS / 1000)
        workers = range(rng.randint(2, 4))
        self.in_step = rng.random() < 0.3
        self.workloads = {
            shard: self.workload(tuple(workers[i :: len(self.shards)]) if self.in_step else ())
            for i, shard in enumerate(self.shards)
        }
        self._lives, self._count = 0, 0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._cuts: list[tuple[frozenset[str], float]] = []
        self.processes: dict[str, Process] = {}
        for i in range(rng.randint(replicas, 4)):
            self._start(f"s{i}")
        names = sorted(self.processes)
        for i, shard in enumerate(self.shards):
            founder = self.processes[names[i % len(names)]].replicas[shard]
            founder.found(Once(self.workloads[shard].make()))
            founder.handle(self.views.found(shard, founder.me, 0.0))
        self.workers = [self._worker(w) for w in workers]
        self._at(_TICK_MS, self._decide)
        for fault in self.weather.faults:
            self._at(fault.at_ms, self._strike, fault)

    def run(self) -> str | None:
        """Run until all is done or time is over; returns what went wrong, or None."""
        queue = self._queue
        while queue and self.now_ms < _END_MS:
            self.now_ms, _, happen, details = heapq.heappop(queue)
            happen(*details)
            if happen == self._decide and self.now_ms > _CALM_MS and settled(self):
                return wrong(self)
        return wrong(self) or f"hang: {who_waits(self)}"

    # ── servers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, name: str) -> None:
        """A process with empty copies; ticks from now on."""
        self._lives += 1000
        process = Process({shard: self._blank(shard, Member(name, self._lives)) for shard in self.shards})
        self.processes[name] = process
        self._at(self.rng.random() * _TICK_MS, self._tick, name, process)

    def _blank(self, shard: str, me: Member) -> Replica:
        workload = self.workloads[shard]

        def copy(once: Once) -> Any:
            return dict(once.sessions), workload.copy(once.machine)

        def revive(state: Any) -> Once:
            return Once(workload.revive(state[1]), dict(state[0]))

        return Replica(shard, me, copy, revive)

    def _tick(self, name: str, process: Process) -> None:
        if not process.runs:
            return
        self._at(_TICK_MS, self._tick, name, process)
        if self.now_ms >= process.paused_until_ms:
            for shard, replica in process.replicas.items():
                self._send(name, shard, replica.tick())

    def _decide(self) -> None:
        self._at(_TICK_MS, self._decide)
        self._send(VIEWS, "", self.views.tick(self.now_ms / 1000))

    def _serve(self, name: str, shard: str, message: Any) -> None:
        process = self.processes.get(name)
        if process is None or not process.runs:
            return
        if self.now_ms < process.paused_until_ms:
            self._at(process.paused_until_ms - self.now_ms, self._serve, name, shard, message)
            return
        replica = process.replicas[shard]
        self._send(name, shard, replica.handle(message) if self.bug is None else self.bug(replica, message))

    # ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _worker(self, number: int) -> Worker:
        shard = self.shards[number % len(self.shards)]
        worker = Worker(number, shard, self.views.views[shard].chain[0].server)
        self._think(worker)
        return worker

    def _contribute(self, worker: Worker, life: int) -> None:
        if worker.life != life:
            return
        event = self.workloads[worker.shard].event(Mark(worker.number, worker.begun))
        worker.asks = Request(worker.number, worker.life, worker.begun, event)
        worker.begun += 1
        self._post(str(worker.number), worker.head, worker.shard, worker.asks)
        self._at(_RETRY_MS, self._ask_again, worker, worker.asks)

    def _ask_again(self, worker: Worker, request: Request) -> None:
        if worker.asks is not request or worker.gave_up:
            return
        self._post(str(worker.number), VIEWS, worker.shard, Where(worker.number, worker.shard))
        again = request if self.rng.random() < 0.5 else request._replace(event=None)
        self._post(str(worker.number), worker.head, worker.shard, again)
        self._at(_RETRY_MS, self._ask_again, worker, request)

    def _hear(self, worker: Worker, message: Any) -> None:
        match message:
            case Lost():  # must not be said while one copy lives; then it waits for ever, and the verdict says so
                worker.gave_up = True
            case _ if worker.gave_up:
                pass
            case View(_, _, chain) if chain:
                worker.head = chain[0].server
            case Unknown() | Elsewhere() if worker.asks is not None:
                self._post(str(worker.number), VIEWS, worker.shard, Where(worker.number, worker.shard))
                if isinstance(message, Unknown):
                    self._post(str(worker.number), worker.head, worker.shard, worker.asks)
            case Response() if worker.asks is not None and message[:3] == worker.asks[:3]:
                worker.acknowledged.append(Mark(worker.number, worker.asks.number))
                worker.asks = None
                self._think(worker)

    def _think(self, worker: Worker) -> None:
        if worker.begun < self.share:
            self._at(self.rng.random() * _THINKS_MS, self._contribute, worker, worker.life)

    def _restart(self, worker: Worker) -> None:
        """It does not know whether its last contribution arrived, and goes on with the next."""
        worker.life += 1
        worker.asks = None
        self._think(worker)

    # ── the network ───────────────────────────────────────────────────────────────────────────────────────────────

    def _at(self, delay_ms: float, happen: Callable[..., None], *details: Any) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._count, happen, details))

    def _send(self, source: str, shard: str, effects: Effects) -> None:
        for to, message in effects:
            self._post(source, str(to), shard or message.shard, message)

    def _post(self, source: str, to: str, shard: str, message: Any) -> None:
        cut = any(self.now_ms < until_ms and (source in side) != (to in side) for side, until_ms in self._cuts)
        delays_ms = () if cut else self.weather.delays_ms(self.rng, self.now_ms)
        for delay_ms in delays_ms:
            self._at(delay_ms, self._arrive, source, to, shard, message)
        if self.trace is not None and not delays_ms:
            self.trace(f"{self.now_ms:7.1f} ms  {source:>5} ──▶ {to:5}  lost: {message}")

    def _arrive(self, source: str, to: str, shard: str, message: Any) -> None:
        if self.trace is not None:
            self.trace(f"{self.now_ms:7.1f} ms  {source:>5} ──▶ {to:5}  {message}")
        if to == VIEWS:
            self._send(VIEWS, shard, self.views.handle(message, self.now_ms / 1000))
        elif to.isdigit():
            self._hear(self.workers[int(to)], message)
        else:
            self._serve(to, shard, message)

    # ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _strike(self, fault: Fault) -> None:
        running = sorted(name for name, process in self.processes.items() if process.runs)
        name = running[int(fault.place * len(running))]
        if self.trace is not None:
            self.trace(f"{self.now_ms:7.1f} ms  {fault.kind} {name} for {fault.for_ms:.0f} ms")
        match fault.kind:
            case "crash" if self._may_crash(name):
                self.processes[name].runs = False
                self._at(fault.for_ms, self._start, name)
            case "pause":
                self.processes[name].paused_until_ms = min(self.now_ms + fault.for_ms, _CALM_MS)
            case "cut":
                everybody = [*self.processes, VIEWS, *(str(worker.number) for worker in self.workers)]
                side = frozenset(end for end in everybody if self.rng.random() < 0.4)
                self._cuts.append((side, min(self.now_ms + fault.for_ms, _CALM_MS)))
            case "leave" if len(set(running) - self.views.leaving) > self.views.replicas:
                self.views.leaving.add(name)
                self._depart(self.processes[name])
            case "worker" if not self.in_step:  # the others would wait for what it never sends
                self._restart(self.workers[int(fault.place * len(self.workers))])
            case "join" if len(self.processes) < 6:
                self._start(f"s{len(self.processes)}")

    def _depart(self, process: Process) -> None:
        """Who leaves ends as soon as nobody needs what it has."""
        if any(replica.needed for replica in process.replicas.values()):
            self._at(_TICK_MS, self._depart, process)
        else:
            process.runs = False

    def _may_crash(self, name: str) -> bool:
        """Not the last one that has everything: r − 1 may lose their memory, not r."""
        return all(
            any(
                member in self.views.sound[shard] and self._is_up(member)
                for member in self.views.views[shard].chain
                if member.server != name
            )
            for shard in self.shards
        )

    def _is_up(self, member: Member) -> bool:
        process = self.processes[member.server]
        return process.runs and any(replica.me == member for replica in process.replicas.values())
