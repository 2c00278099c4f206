"""Workers, servers and views as threads of one process: servers end, fall silent and come back, and nobody notices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.server.shards import ORIGIN, flat, push, shard
from tightwire.algebra.errors import PayloadError, PeerLost, PeerTimeout
from tightwire.run.chain_server import ChainServer
from tightwire.run.failover import Failover
from tightwire.run.views_desk import ViewsDesk
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.chain import Letter, Member, View
from tightwire.server.chainform import ChainForm
from tightwire.server.once import Once
from tightwire.server.replica import VIEWS
from tightwire.server.shard import Shard
from tightwire.server.views import Views

NAME = "shard of all"
FORM = ChainForm()


class Calls:
    """A connection without a socket; everything is packed and unpacked on the way."""

    def __init__(self, town: Town, to: str, me: str) -> None:
        self._town, self._to, self._me = town, to, me

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        desk = self._town.find(self._to, self._me, name)
        reply = desk.ask(0, FORM.unpack(*FORM.pack(event)), timeout_s)
        self._town.find(self._to, self._me, name)  # a reply goes the same way
        return FORM.unpack(*FORM.pack(reply))

    def drop(self) -> None:
        pass


class Town:
    """Three servers and their views; ``cut`` holds who cannot be reached."""

    def __init__(self, machine: Shard, names: tuple[str, ...] = ("s0", "s1", "s2")) -> None:
        self.cut: set[str] = set()
        self.lives = 0
        self.views = ViewsDesk(Views(2, patience_s=0.5))
        self.servers: dict[str, ChainServer] = {}
        self.views.start()
        for name in names:
            self.start(name, machine if name == "s0" else None)
        self.wait(lambda: len(self.chain()) == 2)

    def start(self, name: str, machine: Shard | None = None) -> None:
        self.lives += 1
        server = ChainServer(name, self.lives, lambda to: Calls(self, to, name))
        server.keep(NAME)
        if machine is not None:
            server.found(NAME, FORM.copy(Once(machine)))
        self.servers[name] = server
        server.start()

    def kill(self, name: str) -> None:
        self.servers.pop(name).close()

    def find(self, to: str, me: str, name: str) -> Any:
        if to in self.cut or me in self.cut or (to != VIEWS and to not in self.servers):
            raise PeerLost(f"{to} is gone")
        return self.views if to == VIEWS else self.servers[to].desks[name]

    def chain(self) -> list[str]:
        """Who keeps the shard, if all of them have everything."""
        views: Views = self.views.look(lambda views: views)
        view = views.views.get(NAME)
        if view is None or not set(view.chain) <= views.sound[NAME] or views.final[NAME] != view:
            return []
        lives = {server.life for server in self.servers.values()}
        return [member.server for member in view.chain] if {member.life for member in view.chain} <= lives else []

    def worker(self, rank: int) -> Failover:
        return Failover(rank, 1, lambda to: Calls(self, to, f"worker {rank}"))

    def wait(self, true: Callable[[], bool], timeout_s: float = 10.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not true():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)

    def copies(self) -> list[torch.Tensor]:
        machines = [self.servers[name].desks[NAME].replica.machine for name in self.chain()]
        return [flat(machine.machine) for machine in machines if machine is not None]  # type: ignore[arg-type]

    def close(self) -> None:
        self.views.close()
        for server in self.servers.values():
            server.close()


@pytest.fixture
def town() -> Iterator[Town]:
    made = Town(shard(asynchronous(), workers=2))
    yield made
    made.close()


def pushes(town: Town, rank: int, count: int, pause_s: float = 0.0) -> None:
    worker = town.worker(rank)
    for number in range(count):
        worker.ask(NAME, push(rank, number, 1.0), timeout_s=20.0)
        time.sleep(pause_s)


def same(town: Town, total: int) -> bool:
    copies = town.copies()
    return len(copies) == 2 and all(torch.equal(copy, ORIGIN - total) for copy in copies)


def test_every_copy_holds_what_a_worker_was_told(town: Town) -> None:
    pushes(town, 0, 5)
    assert all(torch.equal(copy, ORIGIN - 5) for copy in town.copies()) and len(town.copies()) == 2


@pytest.mark.parametrize("how", ["kill", "cut"])
def test_the_head_goes_while_two_workers_push(town: Town, how: str) -> None:
    threads = [threading.Thread(target=pushes, args=(town, rank, 40, 0.02), daemon=True) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    head = town.chain()[0]
    if how == "kill":
        town.kill(head)
        time.sleep(0.3)
        town.start(head)
    else:
        town.cut.add(head)
        time.sleep(1.0)
        town.cut.clear()
    for thread in threads:
        thread.join(20.0)
        assert not thread.is_alive()
    town.wait(lambda: same(town, 80))
    assert town.chain()[0] != head


def test_a_server_that_was_killed_and_started_again_catches_up(town: Town) -> None:
    pushes(town, 0, 3)
    worker = town.worker(1)
    for number, name in enumerate(("s0", "s1", "s2")):  # every server once, one after another
        town.kill(name)
        town.start(name)
        worker.ask(NAME, push(1, number, 1.0), 10.0)
        town.wait(lambda: len(town.copies()) == 2)
    town.wait(lambda: same(town, 6))


def test_who_waits_for_others_goes_on_waiting_at_the_next_head() -> None:
    town = Town(shard(every_step(), workers=2))
    try:
        first = threading.Thread(target=pushes, args=(town, 0, 1), daemon=True)
        first.start()
        time.sleep(0.3)
        town.kill(town.chain()[0])
        time.sleep(0.2)
        pushes(town, 1, 1)
        first.join(10.0)
        assert not first.is_alive()
        town.wait(lambda: same(town, 2))
    finally:
        town.close()


def test_who_waits_too_long_is_told_for_whom() -> None:
    town = Town(shard(every_step(), workers=2))
    try:
        with pytest.raises(PeerTimeout, match="which waits for ranks 1"):
            town.worker(0).ask(NAME, push(0, 0), timeout_s=1.0)
    finally:
        town.close()


def test_what_a_shard_refuses_is_refused_and_the_chain_goes_on(town: Town) -> None:
    worker = town.worker(0)
    with pytest.raises(PayloadError):
        worker.ask(NAME, replace(push(0, 0), wires={"first": torch.zeros(8)}), 5.0)
    worker.ask(NAME, push(0, 0, 1.0), 5.0)
    town.wait(lambda: same(town, 1))


def test_nobody_else_can_speak_for_the_views(town: Town) -> None:
    forged = Letter("s9", View(NAME, 99, (Member("s9", 1),)))
    for server in town.servers.values():
        with pytest.raises(PayloadError, match="neither"):
            server.desks[NAME].ask(0, forged, 1.0)
    pushes(town, 0, 1)
    assert same(town, 1)
