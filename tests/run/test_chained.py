"""Servers with sockets, one copy of every shard or two: one joins and leaves, and workers that are slow are named."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.server.shards import ORIGIN, push, shard
from tightwire.algebra.errors import AccessError, PayloadError, PeerLost
from tightwire.engines.chaos_ground import free_port
from tightwire.engines.joining import Joining, reached_at
from tightwire.links.access import Access
from tightwire.links.attendance import SILENT_S
from tightwire.links.door import Door
from tightwire.links.service import Service
from tightwire.links.tokens import fresh_token
from tightwire.run.chain_host import ChainHost
from tightwire.run.chained import Chained
from tightwire.run.views_desk import ViewsDesk
from tightwire.schedules.clock import asynchronous
from tightwire.server.chain import Joins, Letter
from tightwire.server.chainform import ChainForm
from tightwire.server.events import Peek
from tightwire.server.views import Views

TOKEN = fresh_token("tried")
SHARDS = ("a", "b", "c")


class Store(dict[str, str]):
    """What is used of a rendezvous."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def get(self, key: str) -> bytes:  # type: ignore[override]
        return self[key].encode()

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        if not all(key in self for key in keys):
            raise RuntimeError("nobody said so")


class Standing:
    """A server in this process, as `tightwire server` makes it."""

    def __init__(self) -> None:
        self.where = f"grpc://127.0.0.1:{free_port()}"
        self.door = Door(self.where, (TOKEN,), hands_out=False)
        self.host = ChainHost()
        self.service = Service(ChainForm(), self.door)
        self.service.make_desk = self.host.make_desk
        self.service.listen()

    def join(self, other: Standing, said: list[str]) -> Joining:
        made = Joining(self.door, at=self.where, to=[other.where], authority=b"", say=said.append)
        made.start()
        return made


class Run:
    """Two workers at servers of which two were named."""

    def __init__(self, folder: Path, copies: int = 2) -> None:
        (folder / "token").write_text(f"{TOKEN.line()}\n", encoding="utf-8")
        self.standing = [Standing(), Standing()]
        access = Access(tuple(s.where for s in self.standing), str(folder / "token"), keys="none", copies=copies)
        store = Store()
        self.ranks = [Chained(rank, store, "room", access) for rank in (0, 1)]
        self.pushed = Counter[tuple[int, str]]()
        for name in SHARDS:
            for rank in self.ranks:
                rank.host(name, lambda: shard(asynchronous(), workers=2), here=rank is self.ranks[0])

    def push(self, rank: int, *names: str) -> None:
        for name in names:
            self.ranks[rank].ask(name, push(rank, self.pushed[rank, name], 1.0), 20.0)
            self.pushed[rank, name] += 1

    def keeps(self) -> tuple[Counter[str], Counter[str]]:
        """How many copies each server has that are whole, and how many shards it leads."""
        copies = [copy for standing in self.standing for copy in standing.host.report()]
        newest = {name: max(c["view"] for c in copies if c["shard"] == name) for name in {c["shard"] for c in copies}}
        now = [c for c in copies if c["view"] == newest[c["shard"]] and c["caught_up"]]
        has = Counter(c["server"] for c in now if [c["server"], c["life"]] in c["chain"])
        return has, Counter(c["server"] for c in now if c["chain"][0] == [c["server"], c["life"]])

    def totals(self) -> list[torch.Tensor]:
        return [flat_of(self.ranks[0].ask(name, Peek(0), 20.0)) for name in SHARDS]

    def close(self) -> None:
        for rank in reversed(self.ranks):
            rank.close(abandon=False)
        for standing in self.standing:
            standing.service.close()


def flat_of(center: Any) -> torch.Tensor:
    return torch.cat([center.wires[label] for label in ("first", "second")])


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    made.close()


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Run]:
    """With one copy of each shard."""
    made = Run(tmp_path, copies=1)
    yield made
    made.close()


def wait(true: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_a_server_that_nobody_named_takes_its_share_and_gives_it_back(run: Run) -> None:
    one, two = (standing.where for standing in run.standing)
    run.push(0, *SHARDS)
    wait(lambda: run.keeps()[0] == {one: 3, two: 3})
    said: list[str] = []
    late = Standing()
    run.standing.append(late)
    joining = late.join(run.standing[1], said)
    wait(lambda: run.keeps() == ({one: 2, two: 2, late.where: 2}, {one: 1, two: 1, late.where: 1}))
    run.push(1, *SHARDS)  # a worker that has never heard of it is sent there
    assert any(f"offered to {two}" in text for text in said)

    joining.end()
    wait(lambda: late.host.depart() == 0)
    wait(lambda: run.keeps()[0] == {one: 3, two: 3})
    late.service.close()
    run.push(0, *SHARDS)
    assert all(total.equal(ORIGIN - 3) for total in run.totals())


def test_one_copy_moves_to_a_server_that_joins_and_away_from_one_that_leaves(single: Run) -> None:
    run, (one, two) = single, (standing.where for standing in single.standing)
    run.push(0, *SHARDS)
    run.push(1, *SHARDS)
    assert run.keeps()[0] == {one: 2, two: 1}
    late = Standing()
    run.standing.append(late)
    joining = late.join(run.standing[1], [])
    wait(lambda: run.keeps()[0] == run.keeps()[1] == {one: 1, two: 1, late.where: 1})
    wait(lambda: late.service.present == {0, 1})  # nobody has asked there, and yet it would be known who is slow
    run.push(1, *SHARDS)

    for leaver in (run.standing[0], run.standing[1]):
        wait(lambda leaver=leaver: leaver.host.depart() == 0)  # type: ignore[misc]
        leaver.service.close()
        run.push(0, *SHARDS)
    assert run.keeps()[0] == {late.where: 3}, "nobody of those that were named is left"
    assert all(total.equal(ORIGIN - 5) for total in run.totals())
    joining.end()


def test_an_offer_to_a_run_whose_shards_stay_is_answered_in_words() -> None:
    standing, news = Standing(), list[str]()
    standing.service.news = news.append
    standing.service.desks["tried/1/shard"] = standing.host.make_desk("shard", shard(asynchronous(), workers=1))
    try:
        for _ in range(2):
            standing.service.introduce("tried", "grpc://node9:7000")
    finally:
        standing.service.close()
    assert news == [
        "grpc://node9:7000 would share the work of tried, whose shards do not move: it began without --copies"
    ]


def test_workers_are_told_when_the_only_copy_has_ended_with_its_server(single: Run) -> None:
    single.push(0, *SHARDS)
    single.standing.pop(0).service.close()
    began_s = time.monotonic()
    with pytest.raises(PeerLost, match="rank 0 waits for a, and all servers that kept it have ended"):
        single.push(0, "a")
    assert time.monotonic() - began_s < 10.0, "long before its patience ends"
    single.push(0, "b")


def test_a_slow_worker_and_a_silent_one_are_named_by_the_servers(run: Run) -> None:
    for _ in range(20):
        run.push(0, "a")
    run.push(1, "a")
    head = next(standing for standing in run.standing if standing.where in run.keeps()[1])
    services = [standing.service for standing in run.standing]
    wait(lambda: any({guest.rank for guest in service.attendance.here()} == {0, 1} for service in services))
    news: list[str] = []

    def slow() -> bool:  # once the other has asked often enough since it came; the lead may have moved, and it follows
        for _ in range(20):
            run.push(0, "a")
        run.push(1, "a")
        news.extend(text for service in services for text in service.attendance.news(time.monotonic()))
        return any(text.startswith("rank 1 of tried is slow") for text in news)

    wait(slow)
    later_s = time.monotonic() + SILENT_S + 1
    assert any("rank 0 of tried has been silent" in text for s in services for text in s.attendance.news(later_s))
    faults = [report["noticed"] for report in run.ranks[0].reports()]
    assert any(noticed.get("slow") == [1] and 0 in noticed.get("silent", ()) for noticed in faults), faults
    assert head.service.present == {0, 1}


@pytest.mark.parametrize("where", ["", "grpc://[", "http://node9:7000", "grpc://node9"])
def test_an_offer_that_leads_nowhere_is_refused(where: str) -> None:
    desk = ViewsDesk(Views(2, 1.0))
    with pytest.raises(PayloadError, match="Letter is none"):
        desk.ask(-1, Letter("s1", Joins(where)), 1.0)
    assert not desk.joined


def test_a_server_that_joins_says_where_it_is_found() -> None:
    with pytest.raises(AccessError, match=r"name it with --at grpc\+tls://HOST:PORT"):
        reached_at("grpc+tls://0.0.0.0:7000", None)
    with pytest.raises(AccessError, match="others cannot find"):
        reached_at("grpc+tls://0.0.0.0:7000", "grpc://node9:7000")
    assert reached_at("grpc+tls://0.0.0.0:7000", "grpc+tls://node9:7000") == "grpc+tls://node9:7000"
