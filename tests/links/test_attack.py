"""Strangers and malformed messages beside real workers: nothing gets in, nothing is disturbed, memory stays bounded."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from benchmarks import attackers
from benchmarks.attackers import Target
from torch import Tensor

from tests.server.shards import flat, push, shard_with_optimizer
from tightwire.algebra.schedule import Schedule
from tightwire.links.certificates import issue, make_authority
from tightwire.links.door import Door
from tightwire.links.flight_client import Caller
from tightwire.links.limits import Limits
from tightwire.links.service import Service
from tightwire.links.tokens import fresh_token
from tightwire.schedules.clock import every_step
from tightwire.server.shard import Shard
from tightwire.server.wireform import WireForm

MINE, OTHER = fresh_token("mine"), fresh_token("other")
AUTHORITY = make_authority("test", 1.0)
SERVER, WORKER = issue(AUTHORITY, "server", ["127.0.0.1"], 1.0), issue(AUTHORITY, "worker", [], 1.0)
EXPIRED = issue(AUTHORITY, "worker", [], -1.0)
WORKERS, MOST_GROWTH_KB = 2, 200_000
REASONS = {
    "token", "malformed", "limit", "shape", "dtype", "not finite", "unknown tensor", "unknown machine", "replayed",
    "not allowed", "connection",
}  # fmt: skip
LIMITS = Limits(message_nbytes=1 << 20, unproven=16, unproven_s=1.0)


class Besieged:
    """A server with a shard, its workers' way to it, and everybody else's."""

    def __init__(self, schedule: Schedule) -> None:
        door = Door(
            "grpc+tls://127.0.0.1:0", (MINE, OTHER), SERVER.certificate, SERVER.key, AUTHORITY.certificate, LIMITS,
            hands_out=False,
        )  # fmt: skip
        self.service = Service(WireForm(), door)
        self.place = replace(
            self.service.listen(), token=MINE.secret, authority=AUTHORITY.certificate.decode(), host="elsewhere"
        )
        identity = (WORKER.certificate, WORKER.key)
        self.workers = [
            Caller(self.place, host="it", me=rank, form=WireForm(), room="1", identity=identity)
            for rank in range(WORKERS)
        ]
        for worker in self.workers:
            worker.come(5.0)
        self.workers[0].open("shard", shard_with_optimizer(schedule, torch.optim.AdamW, workers=WORKERS), 5.0)
        self.target = Target(
            self.place, "1/shard", push(0, 10**6), OTHER.secret, identity, (EXPIRED.certificate, EXPIRED.key)
        )  # fmt: skip

    def shard(self) -> Shard:
        """The machine itself."""
        made = self.service.desks["mine/1/shard"]._machine  # type: ignore[attr-defined]
        assert isinstance(made, Shard)
        return made

    def train(self, rank: int, rounds: int, go: threading.Semaphore) -> None:
        """One worker's pushes, each waiting for the other's, and for leave to go."""
        for number in range(rounds):
            go.acquire()
            value = {
                label: torch.full((bucket.spec.numel,), 0.1 * (rank + 1) * (number + 1))
                for label, bucket in self.shard().center.items()
            }
            self.workers[rank].ask("1/shard", push(rank, number, value, version=number, rates=(0.1, 0.01)), 20.0)

    def close(self) -> None:
        """The end."""
        for worker in self.workers:
            worker.drop()
        self.service.close()


@contextmanager
def besieged(schedule: Schedule) -> Iterator[Besieged]:
    made = Besieged(schedule)
    try:
        yield made
    finally:
        made.close()


def trained(rounds: int, *, attack: int = 0) -> tuple[Tensor, dict[str, int], int]:
    """The parameters after some rounds of BSP, with so many malformed messages beside it; refusals; memory in kB."""
    with besieged(every_step()) as siege:
        gates = [threading.Semaphore(0 if attack else rounds) for _ in range(WORKERS)]
        threads = [threading.Thread(target=siege.train, args=(rank, rounds, gates[rank])) for rank in range(WORKERS)]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for thread in threads:
            thread.start()
        if attack:
            for _ in assault(siege, attack // rounds, rounds):  # a round of training beside each wave
                for gate in gates:
                    gate.release()
        for thread in threads:
            thread.join(60.0)
            assert not thread.is_alive()
        shard = siege.shard()
        assert shard.version == rounds and set(shard.clocks) == set(range(WORKERS)), "nobody else took part"
        if attack:
            wait_for_quiet(siege.service)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        return flat(shard).clone(), dict(siege.service.guard.refused), grown


def assault(siege: Besieged, messages: int, waves: int) -> Iterator[None]:
    """Everything there is, in waves."""
    target = siege.target
    loris = attackers.slow_loris(target, 40)
    client = target.client()
    others = [
        lambda: attackers.wrong_tokens(target, client), lambda: attackers.expired_certificate(target),
        lambda: attackers.plaintext(target), lambda: attackers.bytes_in_tls(target),
        lambda: attackers.truncated(target, client), lambda: attackers.luggage(target, target.client(), 8 << 20),
    ]  # fmt: skip
    try:
        assert "error" not in attackers.peek(target, client), "who belongs here gets an answer"
        for wave in range(waves):
            yield
            attackers.fuzz(target, client, messages, seed=wave)
            if wave < len(others):
                others[wave]()
        wait_until_shown_out(siege.service, 1)  # on a fast machine all waves are over before anybody's second is
    finally:
        client.close()
        for connection in loris:
            connection.close()


def wait_until_shown_out(service: Service, connections: int, within_s: float = 10.0) -> None:
    """Until so many who only hold the door have been closed by the server."""
    deadline = time.monotonic() + within_s
    while service.guard.refused["connection"] < connections and time.monotonic() < deadline:
        time.sleep(0.05)
    assert service.guard.refused["connection"] >= connections


def wait_for_quiet(service: Service, within_s: float = 5.0) -> None:
    """Until only the workers' connections are left."""
    deadline = time.monotonic() + within_s
    while service.report("mine")["connections"] > WORKERS and time.monotonic() < deadline:
        time.sleep(0.05)
    assert service.report("mine")["connections"] <= WORKERS + 1


def test_under_attack_bsp_ends_with_the_same_bits(request: pytest.FixtureRequest) -> None:
    messages = 10_000 if request.config.getoption("--slow") else 200
    quiet, refused, _ = trained(20)
    assert not refused
    loud, refused, grown = trained(20, attack=messages)
    assert loud.equal(quiet), "not one bit of the parameters may depend on strangers"
    assert set(refused) >= REASONS, refused
    assert refused["token"] >= 15 and sum(refused.values()) >= 0.9 * messages
    assert grown < MOST_GROWTH_KB, f"{grown} kB more than before"


def test_those_who_only_hold_the_door_are_shown_out() -> None:
    with besieged(every_step()) as siege:
        loris = attackers.slow_loris(siege.target, 40)
        wait_until_shown_out(siege.service, 40)
        for connection in loris:
            connection.close()
