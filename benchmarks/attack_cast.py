"""Who takes part in `benchmarks.attack`: a server, workers that push, and an attacker, each a process of its own."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import attackers
from benchmarks.attackers import Target
from tightwire.algebra.errors import UnknownMachine
from tightwire.algebra.schedule import Meta
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.dense import dense
from tightwire.engines.quick import make_quick
from tightwire.links.access import Access
from tightwire.links.certificates import Signed, issue
from tightwire.links.door import own_door
from tightwire.links.flight import Place
from tightwire.links.flight_client import Caller
from tightwire.links.service import Service
from tightwire.rules.yours import yours
from tightwire.schedules.clock import asynchronous
from tightwire.server.events import Push
from tightwire.server.movers import OptimizerMover
from tightwire.server.shard import Shard
from tightwire.server.wireform import WireForm

WORKERS = 2
NUMEL = 250_000  # 1 MB a push, 1 MB a centre
ROOM = "bench"
ATTEMPTS_PER_SECOND = 100


def keep_serving(keys: str, end: Connection) -> None:
    """The server's process."""
    make_quick()  # as `engines.serving` does
    torch.set_num_threads(1)
    folder = Path(keys)
    door = own_door(
        "grpc+tls://127.0.0.1:0", token_file=str(folder / "tokens"), certificate_file=str(folder / "server.pem"),
        key_file=str(folder / "server-key.pem"), client_authority_file=str(folder / "ca.pem"),
    )  # fmt: skip
    service = Service(WireForm(), door)
    end.send(service.listen().location)
    end.recv()
    service.close()


def caller(keys: str, location: str, me: int) -> Caller:
    """A worker's way to it."""
    access = access_to(keys)
    token = access.token()
    assert token is not None
    place = Place(location, token.secret, access.authority().decode())
    return Caller(place, host="the server", me=me, form=WireForm(), identity=access.identity(), room=ROOM)


def access_to(keys: str, run: str = "mine") -> Access:
    """Files."""
    names = (f"{run}.token", "worker.pem", "worker-key.pem", "ca.pem")
    return Access((), *(f"{keys}/{name}" for name in names))


def the_shard() -> Shard:
    """A centre of 1 MB that SGD moves."""
    torch.manual_seed(0)
    center = {"all": Bucket(torch.randn(NUMEL), Spec.pack([("w", (NUMEL // 500, 500))]))}
    weight = nn.Parameter(center["all"]["w"].clone())
    mover = OptimizerMover(center, torch.optim.SGD([weight], lr=1e-3), {weight: "w"}, yours())
    return Shard(
        center, yours(), mover, asynchronous(), dense(), dense(), At(), clocks=dict.fromkeys(range(WORKERS), 0)
    )


def keep_pushing(keys: str, location: str, me: int, count: Any, compute_s: Any) -> None:
    """A worker's process: pushes until it is ended."""
    torch.set_num_threads(1)
    make_quick()
    mine = caller(keys, location, me)
    mine.come(10.0)
    if me == 0:
        mine.open("shard", the_shard(), 10.0)
    gradient, number, version = torch.randn(NUMEL), 0, 0
    while True:
        time.sleep(compute_s.value)
        push = Push(me, number, Meta(me, number, version), {"all": gradient}, (1e-3,))
        try:
            version = mine.ask(f"{ROOM}/shard", push, 10.0).version
        except UnknownMachine:  # the other one has not opened it yet
            time.sleep(0.05)
            continue
        number += 1
        count.value = number


def the_target(keys: str, location: str) -> Target:
    """What the attacker knows."""
    access, other = access_to(keys), access_to(keys, "other").token()
    token = access.token()
    assert token is not None and other is not None
    authority = Signed(Path(keys, "ca.pem").read_bytes(), Path(keys, "ca-key.pem").read_bytes())
    expired = issue(authority, "worker", [], -1.0)
    place = Place(location, token.secret, access.authority().decode())
    good = Push(0, 10**9, Meta(0, 10**9, 0), {"all": torch.randn(NUMEL)}, (1e-3,))
    return Target(place, f"{ROOM}/shard", good, other.secret, access.identity(), (expired.certificate, expired.key))


def keep_attacking(keys: str, location: str, on: Any, done: Any) -> None:
    """The attacker's process: all attacks in turn, for as long as it is told to."""
    os.nice(19)
    torch.set_num_threads(1)
    target = the_target(keys, location)
    seed = 0
    while True:
        on.wait()
        loris = attackers.slow_loris(target, 100)
        client = target.client()
        while on.is_set():
            seed, began = seed + 1, time.monotonic()
            before = done.value
            with suppress(OSError):
                done.value += attackers.wrong_tokens(target, client) + attackers.plaintext(target)
                done.value += attackers.bytes_in_tls(target) + attackers.expired_certificate(target)
                done.value += attackers.truncated(target, client) + attackers.luggage(target, target.client(), 8 << 20)
                done.value += sum(attackers.fuzz(target, client, 20, seed).values())
            time.sleep(max(0.0, (done.value - before) / ATTEMPTS_PER_SECOND - (time.monotonic() - began)))
        client.close()
        for connection in loris:
            connection.close()


def cpu_s(pid: int) -> float:
    """What a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def highest_mb(pid: int) -> float:
    """The most it ever held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e3
    return 0.0


def rss_mb(pid: int) -> float:
    """What a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
