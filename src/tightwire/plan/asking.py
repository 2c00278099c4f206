"""Workers that ask a parameter server, as the simulator plays them (`run.serve`).

    worker   encode ─▶ bytes up ─┐                      ┌─▶ bytes down ─▶ decode, adopt
    shard                        └─▶ queue ─▶ serve ─▶ schedule: apply, hold or drop; answer whoever may read

A shard takes one contribution at a time and lives with one worker, behind that worker's port, or on a host of its own.
Shards in other processes are asked beside each other, else in turn, as by `run.serve`. A worker that keeps a shard also
sends its centres: its ledger counts those too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tightwire.algebra.schedule import Caches, Due, Meta
from tightwire.exchanges.server import Server
from tightwire.plan.desk import Answer, Desk
from tightwire.plan.engine import Gate, Process
from tightwire.plan.jobs import Stage, down_nbytes, inner_stages, up_nbytes
from tightwire.plan.layout import Way
from tightwire.plan.stagehand import Stagehand


class Request(NamedTuple):
    """One question to one shard: a contribution, a mere read, or both."""

    meta: Meta
    push: bool
    pull: bool
    client: Client


class Shards:
    """All shards of a lane."""

    def __init__(self, way: Way, stage: Stagehand) -> None:
        assert isinstance(way.recipe.exchange, Server)
        self.way = way
        self.stage = stage
        count = way.recipe.exchange.shards
        speakers = way.speakers
        self.inside = stage.setting.cluster.servers == "inside"
        self.caches = isinstance(way.recipe.schedule, Caches)  # once: asking a protocol takes longer than a step
        self.keepers = [
            speakers[(way.number + shard) % len(speakers)] if self.inside else stage.setting.workers + shard
            for shard in range(count)
        ]
        self.desks = [Desk(way.recipe.schedule, dict.fromkeys(speakers, 0)) for _ in range(count)]
        profile, at = stage.setting.profile, stage.setting.at
        codec = way.recipe.up[1]
        coding = profile.coding(*way.recipe.up)
        self.up_nbytes = (
            sum(up_nbytes(codec, load.spec, coding, at, samples=profile.batch) for load in way.loads) // count
        )
        self.down_nbytes = sum(down_nbytes(way, load.spec, profile, at) for load in way.loads) // count
        costs = profile.overheads
        self.serve_s = costs.serve_byte_s * way.nbytes / count
        self._beside_s = (costs.ask_core_byte_s, costs.keep_core_byte_s)  # for a byte: who asks, and who keeps
        fastest = max(tier.link.bytes_per_s for tier in stage.setting.cluster.tiers)
        hidden = stage.setting.cluster.cores is None and max(self._beside_s) <= 1 / fastest  # by any wire
        self._alone = hidden or not any(self._beside_s)
        self._queues: list[deque[Request]] = [deque() for _ in range(count)]
        self._called = [Gate() for _ in range(count)]
        self._clients: dict[int, Client] = {}
        for shard in range(count):
            stage.engine.start(self._serve(shard))

    def take(self, which: tuple[int, Request]) -> None:
        """A request has arrived."""
        shard, request = which
        self._queues[shard].append(request)
        called, self._called[shard] = self._called[shard], Gate()
        self.stage.engine.open(called)

    def _serve(self, shard: int) -> Process:
        queue, desk, stage = self._queues[shard], self.desks[shard], self.stage
        while True:
            while queue:
                request = queue.popleft()
                self._clients[request.meta.worker] = request.client
                start = stage.engine.now
                if request.push and self.serve_s > 0:
                    yield stage.busy(self.keepers[shard], self.serve_s)
                    stage.note(-1 - shard, "serve", start, request.meta.clock)
                stage.happened(request.meta.worker, "asked", request.meta.clock, shard)
                answers = desk.push(request.meta, pull=request.pull) if request.push else desk.pull(request.meta)
                self.answer(shard, answers)
            yield self._called[shard]

    def answer(self, shard: int, answers: Sequence[Answer]) -> None:
        """Send what the desk has decided."""
        desk, keeper = self.desks[shard], self.keepers[shard]
        for answer in answers:
            client = self._clients.get(answer.worker)
            if client is None:
                continue
            read = min(desk.clocks.values(), default=0) if client.caches else 0
            said = (client, shard, answer, desk.version, read)
            if answer.worker == keeper:
                self._deliver(said)
            else:
                nbytes = self.down_nbytes if answer.center else 0
                self.carry(keeper, answer.worker, nbytes, (answer.worker, keeper), self._deliver, said)

    def carry(
        self, src: int, dst: int, nbytes: int, ends: tuple[int, int], arrive: Callable[[Any], None], argument: object
    ) -> None:
        """Send; both ``ends``, who asks and who keeps, have work with it while it is on the wire."""
        if self._alone or nbytes == 0:
            self.stage.network.send(src, dst, nbytes, arrive, argument)
            return
        gate = Gate(1 + len(ends))
        self.stage.network.send(src, dst, nbytes, self.stage.engine.open, gate)
        for rank, byte_s in zip(ends, self._beside_s, strict=True):
            self.stage.engine.start(self._handled(rank, byte_s * nbytes, gate))
        self.stage.engine.start(_then(gate, arrive, argument))

    def _handled(self, rank: int, seconds: float, gate: Gate) -> Process:
        if seconds > 0:
            yield self.stage.busy(rank, seconds)
        self.stage.engine.open(gate)

    def _deliver(self, said: tuple[Client, int, Answer, int, int]) -> None:
        client, shard, answer, version, read = said
        client.hear(shard, answer, version, read)


def _then(gate: Gate, call: Callable[[Any], None], argument: object) -> Process:
    yield gate
    call(argument)


Run = Callable[[tuple[int, ...], Sequence[Stage]], Process]
Working = Callable[[str, float, int], Process]


class Client:
    """One worker's dealings with the shards of one lane."""

    def __init__(self, rank: int, shards: Shards, *, work: Working, run: Run) -> None:
        self.rank = rank
        self.shards = shards
        self.way = shards.way
        self._work, self._run = work, run
        self.caches = shards.caches
        self._versions = [0] * len(shards.desks)
        self._read = [0] * len(shards.desks)
        self._heard = [Gate() for _ in shards.desks]
        self._got_center = [False] * len(shards.desks)
        self._apart = [keeper != rank for keeper in shards.keepers]
        self._beside = [there and sum(self._apart) > 1 for there in self._apart]
        self._ahead = [shard for shard, beside in enumerate(self._beside) if beside]
        stage = shards.stage
        profile = stage.setting.profile
        coding = profile.coding(*self.way.recipe.up)
        numel = sum(load.spec.numel for load in self.way.loads)
        costs = profile.overheads
        copies = self.way.nbytes * costs.add_byte_s
        self._encode_s = (coding.encode_s + coding.settle_s) * numel / coding.numel + copies
        self._decode_s = 2 * copies
        self._asking = costs.ask_s > 0 or costs.ask_byte_s > 0
        self._speaks = rank in self.way.speakers
        self._alone = self._speaks and self.way.leaf.inner is None
        adopt = self.way.recipe.adopt
        self._looks_first = adopt.looks == "before" and self.way.recipe.send.needs_center

    def meet(self, step: int) -> Process:
        """Push and pull what is due."""
        due = self.way.recipe.schedule.due(step)
        return self._deal(due, step) if self._alone else self._grouped(due, step)

    def _grouped(self, due: Due, step: int) -> Process:
        """The group adds up, one of it asks, and all hear."""
        if not (due.push or due.pull):
            return
        if due.push:
            yield from self._run((step, self.way.number, 0), inner_stages(self.way, self.shards.stage.setting, "up"))
        if self._speaks:
            yield from self._deal(due, step)
        yield from self._run((step, self.way.number, 1), inner_stages(self.way, self.shards.stage.setting, "down"))

    def leave(self) -> None:
        """Nobody need wait for this worker."""
        for shard, desk in enumerate(self.shards.desks):
            self.shards.answer(shard, desk.leave(self.rank))

    def _deal(self, due: Due, step: int) -> Process:
        if not (due.push or due.pull):
            return
        if (due.pull and not due.push) or (due.push and self._looks_first):
            yield from self._ask_all(step, push=False, pull=True)
            yield from self._work("decode", self._decode_s, step)
            if not due.push:
                return
        if self._encode_s:
            yield from self._work("encode", self._encode_s, step)
        pull = due.pull and not self._looks_first and not self._fresh(step)
        yield from self._ask_all(step, push=True, pull=pull)
        if (self._looks_first or any(self._got_center)) and self._decode_s:
            yield from self._work("decode", self._decode_s, step)

    def _fresh(self, step: int) -> bool:
        schedule = self.way.recipe.schedule
        return self.caches and all(schedule.fresh(step + 1, read) for read in self._read)  # type: ignore[attr-defined]

    def _ask_all(self, step: int, *, push: bool, pull: bool) -> Process:
        """Ask every shard and hear its answer. Thousands do this: few generators, nested as little as can be."""
        stage = self.shards.stage
        for shard in self._ahead:
            if self._asking:
                yield from self._handle(shard, step, push, up=True)
            self._ask(shard, step, push=push, pull=pull)
        for shard, remote in enumerate(self._apart):
            if not self._beside[shard]:
                if remote and self._asking:
                    yield from self._handle(shard, step, push, up=True)
                self._ask(shard, step, push=push, pull=pull)
            start = stage.engine.now
            yield self._heard[shard]
            stage.note(self.rank, "wait", start, step)
            if remote:
                self._count(shard, self.shards.down_nbytes if self._got_center[shard] else 0, up=False)
                if self._asking:
                    yield from self._handle(shard, step, self._got_center[shard], up=False)

    def _handle(self, shard: int, step: int, full: bool, *, up: bool) -> Process:
        """What software does for a question or an answer, with or without its bytes."""
        costs, shards = self.shards.stage.setting.profile.overheads, self.shards
        nbytes = (shards.up_nbytes if up else shards.down_nbytes) if full else 0
        yield from self._work("send", costs.ask_core_s / 2 + costs.ask_byte_s * nbytes, step)
        yield max(0.0, costs.ask_s - costs.ask_core_s) / 2  # until threads wake

    def _ask(self, shard: int, step: int, *, push: bool, pull: bool) -> None:
        shards = self.shards
        request = Request(Meta(self.rank, step, self._versions[shard]), push, pull, self)
        self._heard[shard] = Gate()
        if self._apart[shard]:
            up = shards.up_nbytes if push else 0
            self._count(shard, up, up=True)
            keeper = shards.keepers[shard]
            shards.carry(self.rank, keeper, up, (self.rank, keeper), shards.take, (shard, request))
        else:
            shards.take((shard, request))

    def _count(self, shard: int, nbytes: int, *, up: bool) -> None:
        """Bytes that cross a socket, by whoever sends and gets them."""
        stage, keeper = self.shards.stage, self.shards.keepers[shard]
        ours, theirs = (stage.tx, stage.rx) if up else (stage.rx, stage.tx)
        ours[self.rank] += nbytes
        if self.shards.inside:
            theirs[keeper] += nbytes

    def hear(self, shard: int, answer: Answer, version: int, read: int) -> None:
        """An answer is there."""
        self._got_center[shard] = answer.center
        if answer.center:
            self._versions[shard], self._read[shard] = version, read
        self.shards.stage.engine.open(self._heard[shard])
