"""Real workers under attack: their rate with and without strangers at the door, and the server's memory.

    python -m benchmarks.attack [--rounds 5] [--seconds 8]

One server that stands alone (a process of its own, mutual TLS, tokens), 2 workers that push and pull without waiting
for each other, and in every other stretch an attacker, which holds 100 connections and makes up to 100 attempts a
second. Stretches with and without it take turns. The attacker is a process of the lowest priority, because its own
computing on this machine's few cores is not what is measured; what it makes the server do is.

    computing    a worker's step takes 20 ms elsewhere (it sleeps, as one does whose GPU computes), then it pushes 1 MB
    saturating   it does nothing but push, so that workers and server fill the cores before the attacker comes
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import attackers
from benchmarks.attackers import Target
from benchmarks.harness import write
from tightwire.algebra.errors import UnknownMachine
from tightwire.algebra.schedule import Meta
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.dense import dense
from tightwire.engines.keyring import make_keys
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
MODES = {"computing": 0.02, "saturating": 0.0}  # seconds between two pushes of a worker


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


def costs(keys: str, location: str, pid: int) -> dict[str, float]:
    """The server's computing for one of each, in ms: what does not depend on who else uses the cores."""
    target, mine = the_target(keys, location), caller(keys, location, 0)
    mine.come(20.0)
    mine.open("shard", the_shard(), 20.0)
    client, gradient = target.client(), torch.randn(NUMEL)

    def push(number: int) -> int:
        mine.ask(f"{ROOM}/shard", Push(0, number, Meta(0, number, number), {"all": gradient}, (1e-3,)), 20.0)
        return 1

    kinds: dict[str, tuple[int, Callable[[int], int]]] = {
        "a push of 1 MB, with its reply": (100, push),
        "a wrong token": (5, lambda _: attackers.wrong_tokens(target, client)),
        "plain text at the TLS port": (10, lambda _: attackers.plaintext(target)),
        "noise inside TLS": (10, lambda _: attackers.bytes_in_tls(target)),
        "an expired certificate": (20, lambda _: attackers.expired_certificate(target)),
        "8 MiB without a token": (10, lambda _: attackers.luggage(target, target.client(), 8 << 20)),
        "a malformed message": (10, lambda seed: sum(attackers.fuzz(target, client, 20, seed).values())),
    }
    found = {}
    for kind, (times, attempt) in kinds.items():
        before = _cpu_s(pid)
        done = sum(attempt(number) for number in range(times))
        time.sleep(0.3)
        found[kind] = 1e3 * (_cpu_s(pid) - before) / done
    client.close()
    mine.leave()
    return found


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


def rss_mb(pid: int) -> float:
    """What a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(rounds: int, seconds: float) -> dict[str, Any]:
    """The whole thing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch._dynamo", "benchmarks.attackers", "tightwire.engines.keyring", "tightwire.links.service"]
    )
    with tempfile.TemporaryDirectory() as keys:
        make_keys(Path(keys), run="mine", hosts=["127.0.0.1"], days=1.0)
        make_keys(Path(keys), run="other", hosts=[], days=1.0)
        ours, theirs = context.Pipe()
        server = context.Process(target=keep_serving, args=(keys, theirs))
        server.start()
        location = ours.recv()
        cost_ms = costs(keys, location, server.pid or 0)
        counts = [context.Value("q", 0) for _ in range(WORKERS)]
        on, done, compute_s = context.Event(), context.Value("q", 0), context.Value("d", 0.0)
        processes = [
            context.Process(target=keep_pushing, args=(keys, location, me, counts[me], compute_s))
            for me in range(WORKERS)
        ] + [context.Process(target=keep_attacking, args=(keys, location, on, done))]
        for process in processes:
            process.start()
        try:
            while min(count.value for count in counts) < 20:
                time.sleep(0.1)
            before = rss_mb(server.pid or 0)
            found = {}
            for mode, compute_s.value in MODES.items():
                turns = [bool(k % 2) for k in range(2 * rounds)]
                found[mode] = _judged(
                    [_stretch(server.pid or 0, counts, on, done, seconds, attacked=turn) for turn in turns]
                )
            highest = _highest_mb(server.pid or 0)
            watch = caller(keys, location, -1)
            watch.connect(10.0)
            report = watch.status(10.0)
            watch.drop()
        finally:
            for process in processes:
                process.kill()
                process.join()
            ours.send("end")
            server.join(5.0)
            server.kill()
    return {
        "workers": WORKERS,
        "push_nbytes": 4 * NUMEL,
        "server_cpu_ms": cost_ms,
        **found,
        "server_mb_before": before,
        "server_mb_highest": highest,
        "refused": report["refused"],
    }


def _judged(stretches: list[dict[str, Any]]) -> dict[str, Any]:
    """Pushes a second with and without the attacker, and what is kept, by pairs of neighbours."""
    quiet, loud = ([s for s in stretches if s["attacked"] is attacked] for attacked in (False, True))
    rates = [sum(s["pushes"]) / s["seconds"] for s in quiet], [sum(s["pushes"]) / s["seconds"] for s in loud]
    return {
        "pushes_per_second": statistics.median(rates[0]),
        "pushes_per_second_under_attack": statistics.median(rates[1]),
        "rate_kept": statistics.median(b / a for a, b in zip(*rates, strict=True)),
        "server_cpu_ms_per_push": 1e3 * sum(s["server_cpu_s"] for s in quiet) / sum(sum(s["pushes"]) for s in quiet),
        "server_cpu_ms_per_push_under_attack": (
            1e3 * sum(s["server_cpu_s"] for s in loud) / sum(sum(s["pushes"]) for s in loud)
        ),
        "attacks_per_second": sum(s["attacks"] for s in loud) / sum(s["seconds"] for s in loud),
        "stretches": stretches,
    }


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _highest_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e3
    return 0.0


def _stretch(
    pid: int, counts: list[Any], on: Any, done: Any, seconds: float, *, attacked: bool
) -> dict[str, Any]:  # fmt: skip
    on.set() if attacked else on.clear()
    time.sleep(1.0)  # until it is under way, or has ended
    before, began, attacks, cpu_s = [count.value for count in counts], time.monotonic(), done.value, _cpu_s(pid)
    time.sleep(seconds)
    pushes = [count.value - b for count, b in zip(counts, before, strict=True)]
    stretch = {
        "attacked": attacked, "pushes": pushes, "seconds": time.monotonic() - began, "attacks": done.value - attacks,
        "server_cpu_s": _cpu_s(pid) - cpu_s,
    }  # fmt: skip
    on.clear()
    return stretch


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    write("attack", measure(arguments.rounds, arguments.seconds))


if __name__ == "__main__":
    main()
