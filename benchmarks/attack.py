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
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import attackers
from benchmarks.attack_cast import (
    NUMEL,
    ROOM,
    WORKERS,
    caller,
    cpu_s,
    highest_mb,
    keep_attacking,
    keep_pushing,
    keep_serving,
    rss_mb,
    the_shard,
    the_target,
)
from benchmarks.harness import write
from tightwire.algebra.schedule import Meta
from tightwire.engines.keyring import make_keys
from tightwire.server.events import Push

MODES = {"computing": 0.02, "saturating": 0.0}  # seconds between two pushes of a worker


@dataclass(frozen=True)
class Stage:
    """All processes, under way."""

    pid: int  # of the server
    counts: list[Any]  # pushes of each worker
    compute_s: Any
    attacked: Any
    attempts: Any


@contextmanager
def under_way(keys: str, location: str, pid: int, context: Any) -> Iterator[Stage]:
    """Workers that push, and an attacker that waits."""
    stage = Stage(
        pid, [context.Value("q", 0) for _ in range(WORKERS)], context.Value("d", 0.0), context.Event(),
        context.Value("q", 0),
    )  # fmt: skip
    processes = [
        context.Process(target=keep_pushing, args=(keys, location, me, stage.counts[me], stage.compute_s))
        for me in range(WORKERS)
    ] + [context.Process(target=keep_attacking, args=(keys, location, stage.attacked, stage.attempts))]
    for process in processes:
        process.start()
    try:
        while min(count.value for count in stage.counts) < 20:
            time.sleep(0.1)
        yield stage
    finally:
        for process in processes:
            process.kill()
            process.join()


@contextmanager
def served(keys: str, context: Any) -> Iterator[tuple[str, int]]:
    """A server: where it is, and its process."""
    ours, theirs = context.Pipe()
    server = context.Process(target=keep_serving, args=(keys, theirs))
    server.start()
    try:
        yield ours.recv(), server.pid or 0
    finally:
        ours.send("end")
        server.join(5.0)
        server.kill()


def measure(rounds: int, seconds: float) -> dict[str, Any]:
    """The whole thing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch._dynamo", "benchmarks.attackers", "tightwire.engines.keyring", "tightwire.links.service"]
    )
    with tempfile.TemporaryDirectory() as keys:
        make_keys(Path(keys), run="mine", hosts=["127.0.0.1"], days=1.0)
        make_keys(Path(keys), run="other", hosts=[], days=1.0)
        with served(keys, context) as (location, pid):
            cost_ms = costs(keys, location, pid)
            with under_way(keys, location, pid, context) as stage:
                before, found = rss_mb(pid), {}
                for mode, stage.compute_s.value in MODES.items():
                    turns = [bool(k % 2) for k in range(2 * rounds)]
                    found[mode] = _judged([_stretch(stage, seconds, attacked=turn) for turn in turns])
                highest = highest_mb(pid)
                watch = caller(keys, location, -1)
                watch.connect(10.0)
                report = watch.status(10.0)
                watch.drop()
    return {
        "workers": WORKERS,
        "push_nbytes": 4 * NUMEL,
        "server_cpu_ms": cost_ms,
        **found,
        "server_mb_before": before,
        "server_mb_highest": highest,
        "refused": report["refused"],
    }


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
        before = cpu_s(pid)
        done = sum(attempt(number) for number in range(times))
        time.sleep(0.3)
        found[kind] = 1e3 * (cpu_s(pid) - before) / done
    client.close()
    mine.leave()
    return found


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


def _stretch(stage: Stage, seconds: float, *, attacked: bool) -> dict[str, Any]:
    stage.attacked.set() if attacked else stage.attacked.clear()
    time.sleep(1.0)  # until it is under way, or has ended
    before, began = [count.value for count in stage.counts], time.monotonic()
    attempts, computed_s = stage.attempts.value, cpu_s(stage.pid)
    time.sleep(seconds)
    stretch = {
        "attacked": attacked,
        "pushes": [count.value - b for count, b in zip(stage.counts, before, strict=True)],
        "seconds": time.monotonic() - began,
        "attacks": stage.attempts.value - attempts,
        "server_cpu_s": cpu_s(stage.pid) - computed_s,
    }
    stage.attacked.clear()
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
