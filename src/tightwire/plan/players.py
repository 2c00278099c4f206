"""Workers as the simulator plays them: a thread that computes, and a comm thread that takes jobs one after another.

main   ─ forward ─┬─ backward ──┬─────────┬─ waits ─┬─ update ─┬─ waits ─ …      (`run.worker`)
                  └ bucket 0    └ bucket 1           └ weights, if due
comm              └── encode, rounds, decode ─┴── …                              (`links.jobs`, `run.conduct`)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isinf

from tightwire.algebra.exchange import Transfer
from tightwire.plan.asking import Client, Shards
from tightwire.plan.engine import Gate, Process
from tightwire.plan.jobs import Move, Setting, Stage, job_of
from tightwire.plan.layout import Load, Way
from tightwire.plan.moves import by_pipes, rounds_by_rank
from tightwire.plan.stagehand import Failure, Stagehand


@dataclass
class Job:
    """A bucket on its way; the gate opens when it is back."""

    key: tuple[int, int, int]  # step, lane, bucket
    stages: Sequence[Stage]
    done: Gate = field(default_factory=Gate)


class Player:
    """One worker."""

    def __init__(self, rank: int, ways: Sequence[Way], stage: Stagehand, shards: Sequence[Shards]) -> None:
        self.rank = rank
        self.ways = ways
        self.stage = stage
        self._jobs: deque[Job] = deque()
        self._called = Gate()
        crowd = ways if stage.setting.workers > 1 else ()
        early = [(way, load) for way in crowd if way.early and way.collective for load in way.loads]
        self._queue = sorted(early, key=lambda entry: -entry[1].place)
        self._late = [way for way in crowd if not way.early and way.collective]
        self._known: dict[tuple[int, str], list[Stage]] = {}
        profile = stage.setting.profile
        collected = sum(load.spec.nbytes for _, load in self._queue) * profile.overheads.add_byte_s
        self._compute_s = profile.compute_s
        self._before_s = profile.forward_s + profile.overheads.step_s + collected
        self._passes_s = self._before_s + profile.backward_s
        self._clients = [Client(rank, of, work=self.work, run=self.run) for of in shards]
        self._local = any(not client.way.early for client in self._clients)
        self._first = self._clients[0] if len(self._clients) == 1 and not self._local else None  # asked in every step
        served = sum(client.way.nbytes for client in self._clients if client.way.early)
        whole = sum(way.nbytes for way in ways) or 1
        self._update_s = stage.setting.profile.update_s * (1 - served / whole)  # the rest is stepped by the server

    # ── the thread that computes ──────────────────────────────────────────────────────────────────────────────────

    def main(self) -> Process:
        """Step after step, as many as there are."""
        stage, jobs, ahead = self.stage, list[Job](), list[Job]()
        for step in range(stage.quota):
            start = stage.engine.now
            if self._late:
                ahead = [job for way in self._late if self._goes_ahead(way, step) for job in self._send(way, step)]
            failure = stage.failing(self.rank, within_s=self._compute_s) if stage.failures else None
            if failure is not None:
                yield from self._fall(failure, step)
            if self._queue:
                jobs = []
                yield from self.passes(step, jobs)
            else:
                begun = stage.engine.now
                yield stage.busy(self.rank, self._passes_s * stage.factor(self.rank, step) * stage.stride)
                stage.computing_s += stage.engine.now - begun
                stage.note(self.rank, "compute", begun, step)
            if jobs or ahead:
                yield from self._await(jobs + ahead, step)
            if self._first is not None:
                yield from self._first.meet(stage.stride * (step + 1) - 1)
            elif self._clients:
                yield from self._meet(step, before=True)
            if self._update_s:
                yield from self.work("update", self._update_s * stage.stride, step)
            if self._late:
                yield from self._average(step)
            if self._local:
                yield from self._meet(step, before=False)
            stage.stepped(self.rank, start, step)
        self.leave()

    def _average(self, step: int) -> Process:
        """Lanes that send their weights after the optimizer's step; what came back is adopted in any case."""
        for way in self._late:
            due = way.recipe.schedule.due(step)
            if due.push and not self._goes_ahead(way, step):
                yield from self._await(self._send(way, step), step)
            if due.push:
                moved = 3 * way.nbytes * self.stage.setting.profile.overheads.add_byte_s
                yield from self.work("decode", moved, step)

    def passes(self, step: int, jobs: list[Job]) -> Process:
        """Forward and backward; buckets leave as they become ready."""
        profile, passed = self.stage.setting.profile, 0.0
        factor = self.stage.factor(self.rank, step) * self.stage.stride
        left = self._before_s  # of the forward pass, and of what comes before it
        for way, load in self._queue:
            if load.ready_s > passed:
                yield from self.work("compute", (left + load.ready_s - passed) * factor, step)
                left, passed = 0.0, load.ready_s
            jobs.append(self._launch(way, load, step))
        start, seconds = self.stage.engine.now, (left + profile.backward_s - passed) * factor
        if seconds > 0:
            yield self.stage.busy(self.rank, seconds)
        self.stage.computing_s += self.stage.engine.now - start
        self.stage.note(self.rank, "compute", start, step)

    def work(self, kind: str, seconds: float, step: int) -> Process:
        """Compute for a while."""
        start = self.stage.engine.now
        if seconds > 0:
            yield self.stage.busy(self.rank, seconds)
        if kind == "compute":
            self.stage.computing_s += self.stage.engine.now - start
        self.stage.note(self.rank, kind, start, step)  # type: ignore[arg-type]

    def _meet(self, step: int, *, before: bool) -> Process:
        """Servers that are asked before the optimizer's step, or after it."""
        clock = self.stage.stride * (step + 1) - 1
        for client in self._clients:
            if (client.way.early or client.way.recipe.schedule.due(clock).before_local) == before:
                yield from client.meet(clock)

    def _fall(self, failure: Failure, step: int) -> Process:
        """Compute in vain until it happens, be dead for a while, then begin the step anew."""
        yield from self.work("compute", max(0.0, failure.at_s - self.stage.engine.now), step)
        start = self.stage.engine.now
        if isinf(failure.down_s):
            self.leave()
            yield Gate()  # for ever
        yield float(failure.down_s)
        self.stage.note(self.rank, "down", start, step)

    def leave(self) -> None:
        """No server need wait for this worker; a collective does all the same."""
        for client in self._clients:
            client.leave()

    def _await(self, jobs: Sequence[Job], step: int) -> Process:
        start = self.stage.engine.now
        for job in jobs:
            yield job.done
        self.stage.note(self.rank, "wait", start, step)

    def _goes_ahead(self, way: Way, step: int) -> bool:
        due = way.recipe.schedule.due(step)
        return due.push and due.before_local and way.plain

    def _send(self, way: Way, step: int) -> list[Job]:
        return [self._launch(way, load, step) for load in way.loads]

    # ── the comm thread ───────────────────────────────────────────────────────────────────────────────────────────

    def _launch(self, way: Way, load: Load, step: int) -> Job:
        number = next(i for i, other in enumerate(way.loads) if other is load)
        job = Job((step, way.number, number), self.stages(way, load, step))
        self._jobs.append(job)
        called, self._called = self._called, Gate()
        self.stage.engine.open(called)
        return job

    def stages(self, way: Way, load: Load, step: int) -> list[Stage]:
        """What a bucket does on its way: the same in every step, but for gossip."""
        if way.pattern == "peers":
            old = self.stage.setting
            return job_of(way, load, Setting(old.profile, old.cluster, old.workers, step))
        key = (way.number, load.label)
        if key not in self._known:
            self._known[key] = job_of(way, load, self.stage.setting)
        return self._known[key]

    def comm(self) -> Process:
        """Jobs in their order."""
        while True:
            while self._jobs:
                job = self._jobs.popleft()
                yield from self.work("encode", self.stage.setting.profile.overheads.job_s, job.key[0])
                yield from self.run(job.key, job.stages)
                self.stage.engine.open(job.done)
            yield self._called

    def run(self, key: tuple[int, ...], stages: Sequence[Stage]) -> Process:
        """This rank's part of a job."""
        for number, stage in enumerate(stages):
            if isinstance(stage, Move):
                for group in stage.groups:
                    if self.rank in group:
                        yield from self._move((*key, number), stage, group)
            elif self.rank in stage.ranks:
                yield from self.work(stage.kind, stage.seconds, key[0])

    def _move(self, key: tuple[int, ...], move: Move, group: tuple[int, ...]) -> Process:
        """Round by round: all sends start, then everything is waited for, then what came is added."""
        me, costs = group.index(self.rank), self.stage.setting.profile.overheads
        message_s, _ = costs.message(native=move.native, framed=by_pipes(move.frame_nbytes, move.most_nbytes))
        byte_s = costs.native_byte_s if move.native else costs.byte_s
        for number, all_sends, all_comes in rounds_by_rank(move.graph).get(me, ()):
            start = self.stage.engine.now
            sends = [t for t in all_sends if move.nbytes(t) > 0]
            comes = [t for t in all_comes if move.nbytes(t) > 0]
            handled = message_s * max(len(sends), len(comes))
            if not move.native:  # which handles one part while another is on the wire
                yield self.stage.busy(self.rank, handled)
            gate = self.stage.gate((key, number, self.rank))
            gate.needed += len(sends) + len(comes)
            for t in sends:
                self._post(key, number, move, t, group)
            out, into = (sum(map(move.nbytes, some)) for some in (sends, comes))
            self.stage.tx[self.rank] += out
            self.stage.rx[self.rank] += into
            yield self.stage.busy(self.rank, byte_s * max(out, into) + (handled if move.native else 0.0))
            yield gate
            del self.stage.mail[key, number, self.rank]
            added = sum(move.nbytes(t) for t in comes if t.op == "add")
            yield self.stage.busy(self.rank, 0.0 if move.native else costs.add_byte_s * added)
            self.stage.note(self.rank, "send", start, key[0])

    def _post(self, key: tuple[int, ...], number: int, move: Move, t: Transfer, group: tuple[int, ...]) -> None:
        """Send: when it is there, its receiver has it and its sender is rid of it."""
        to = group[t.dst]
        ends = ((key, number, to), (key, number, self.rank))
        nbytes = move.nbytes(t)
        self.stage.happened(self.rank, "sent", key[0], to, nbytes)
        self.stage.network.send(self.rank, to, nbytes, self._landed, ends)

    def _landed(self, ends: tuple[object, object]) -> None:
        for end in ends:
            self.stage.arrive(end)
