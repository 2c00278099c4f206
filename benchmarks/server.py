"""The parameter server's wire against raw sockets, torch RPC and Ray: 100 MB pushed and pulled, interleaved.

    python -m benchmarks.server [--rounds 10]

Every contestant is two processes, worker and server, with one thread each, on a core each: like two machines, and
without the kernel's moods (it likes to wake a receiver on the sender's core, and then both take turns). Those of a
group take turns; whoever is not up is stopped (SIGSTOP), because some of them poll while they wait. What each does is
said in `benchmarks.server_ends`: received whole, then applied, everywhere. Ray takes part where it is installed; that
it is not is said in the result. `benchmarks.server_lab` measures between hosts.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from benchmarks import server_ends as ends
from benchmarks.harness import ratio, write
from tightwire.engines.forked import fork, preload
from tightwire.engines.leash import obey_leash

Seconds = dict[str, dict[str, list[float]]]  # by way and contestant
Serve = Callable[[Connection, str, int], None]
CONTESTANTS: dict[str, tuple[Serve, Callable[..., ends.End], str]] = {
    "socket": (ends.serve_socket, ends.SocketEnd, "tcp"),
    "flight": (ends.serve_flight, ends.FlightEnd, "tcp"),
    "tls socket": (ends.serve_socket, ends.SocketEnd, "tls"),
    "flight tls": (ends.serve_flight, ends.FlightEnd, "tls"),
    "shared memory": (ends.serve_flight, ends.FlightEnd, "shared"),
    "torch rpc": (ends.serve_rpc, ends.RpcEnd, ""),
    "ray": (ends.serve_ray, ends.RayEnd, ""),
}
APART, ANYWHERE = "a core each", "where the kernel puts them"
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (  # Ray starts processes of its own, which are not ours to place
    (APART, ("socket", "flight", "tls socket", "flight tls", "shared memory")),
    (ANYWHERE, ("socket", "flight")),
    (APART, ("torch rpc", "flight", "shared memory")),
    (ANYWHERE, ("ray", "flight", "shared memory")),
)
WAYS = ("push", "pull")
STEPS = 3
BARS: tuple[tuple[int, str, str, float], ...] = (  # in which group; ours ÷ theirs in speed, at least
    (0, "flight", "socket", 0.80),
    (1, "flight", "socket", 0.80),
    (0, "flight tls", "tls socket", 0.85),
    (0, "shared memory", "socket", 2.0),
    (0, "shared memory", "flight", 2.0),
    (2, "flight", "torch rpc", 1.0),
    (2, "shared memory", "torch rpc", 1.0),
    (3, "shared memory", "ray", 1.0),
)


def serve(name: str, where: str, pipe: Connection) -> None:
    """The server's process."""
    obey_leash()
    _settle(where, 1)
    torch.set_num_threads(1)
    CONTESTANTS[name][0](pipe, CONTESTANTS[name][2], ends.NUMEL)
    os._exit(0)  # RPC and gRPC would wait for a worker that is gone


def _settle(where: str, which: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if where == APART and len(cores) > 1:
        os.sched_setaffinity(0, {cores[which]})


def work(name: str, where: str, pipe: Connection) -> None:
    """The worker's process: pushes and pulls when it is told to, and says how long that took."""
    obey_leash()
    _settle(where, 0)
    torch.set_num_threads(1)
    end = CONTESTANTS[name][1](pipe.recv(), CONTESTANTS[name][2], ends.NUMEL)
    gradient, weights = torch.randn(ends.NUMEL), torch.zeros(ends.NUMEL)
    ways = {"push": lambda: end.push(gradient), "pull": lambda: end.pull(weights)}
    while (way := pipe.recv()) is not None:
        begin = time.perf_counter()
        for _ in range(STEPS):
            ways[way]()
        pipe.send((time.perf_counter() - begin) / STEPS)
        if way == "pull":
            pipe.send(float(weights[-1] / gradient[-1]))  # minus the number of pushes
    if isinstance(end, ends.RayEnd):
        end.close()
    os._exit(0)


class Pair:
    """A contestant's two processes."""

    def __init__(self, name: str, where: str, folder: Path) -> None:
        self._server, inner = multiprocessing.Pipe()
        self._worker, other = multiprocessing.Pipe()
        log = folder / f"{name}.log"
        self.processes = [
            fork(serve, name, where, inner, env={}, log=log),
            fork(work, name, where, other, env={}, log=log),
        ]
        self._worker.send(self._server.recv())
        self._pushed = 0

    def time(self, way: str) -> float:
        """Seconds of one push or pull, as the mean of a few; what comes back must be what was pushed."""
        self._signal(signal.SIGCONT)
        self._worker.send(way)
        seconds: float = self._worker.recv()
        if way == "pull":
            seen = self._worker.recv()
            assert abs(seen + self._pushed) < 1e-3 * max(1, self._pushed), (seen, self._pushed)
        else:
            self._pushed += STEPS
        self._signal(signal.SIGSTOP)
        return seconds

    def _signal(self, which: signal.Signals) -> None:
        for process in self.processes:
            assert process.pid is not None
            os.kill(process.pid, which)

    def end(self) -> None:
        """Both."""
        with suppress(BrokenPipeError, ProcessLookupError):
            self._signal(signal.SIGCONT)
            self._worker.send(None)
            self._server.send(None)
        for process in self.processes:
            process.join(5.0)
            process.kill()


def contest(where: str, names: tuple[str, ...], rounds: int) -> Seconds:
    """Seconds by way and contestant, a figure a round; the order changes from round to round."""
    seconds: Seconds = {way: {name: [] for name in names} for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        preload()
        pairs = {name: Pair(name, where, Path(folder)) for name in names}
        try:
            for number in range(-1, rounds):  # the first one warms up
                for name in names if number % 2 else reversed(names):
                    for way in WAYS:
                        figure = pairs[name].time(way)
                        if number >= 0:
                            seconds[way][name].append(figure)
        except EOFError:
            logs = "\n".join(path.read_text() for path in sorted(Path(folder).glob("*.log")))
            sys.exit(f"a benchmark process failed:\n{logs[-4000:]}")
        finally:
            for pair in pairs.values():
                pair.end()
    return seconds


def applying_ms() -> dict[str, float]:
    """What the applying alone takes, which all contestants have in common."""
    torch.set_num_threads(1)
    center, buffer = torch.zeros(ends.NUMEL), torch.ones(ends.NUMEL)
    found = {}
    jobs: dict[str, Callable[[], Any]] = {"push": lambda: center.sub_(buffer), "pull": lambda: center.copy_(buffer)}
    for way, apply in jobs.items():
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            apply()
            times.append(1e3 * (time.perf_counter() - begin))
        found[way] = statistics.median(times)
    return found


def medians(seconds: Seconds) -> dict[str, dict[str, float]]:
    """By way and contestant, in milliseconds."""
    return {way: {name: 1e3 * statistics.median(values) for name, values in found.items()}
            for way, found in seconds.items()}  # fmt: skip


def compared(seconds: list[Seconds]) -> list[dict[str, Any]]:
    """Every bar, by the rounds of its own group: how many times as fast as the other."""
    rows = []
    for group, ours, theirs, bar in BARS:
        for way in WAYS:
            if seconds[group][way].get(theirs):
                speed = ratio(seconds[group][way], theirs, ours)
                rows.append({"pair": f"{ours} / {theirs}", "where": GROUPS[group][0], "way": way, "bar": bar,
                             "speed": speed, "holds": speed["median"] >= bar})  # fmt: skip
    return rows


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    ray = importlib.util.find_spec("ray") is not None
    seconds: list[Seconds] = [
        contest(where, names, asked.rounds) if ray or "ray" not in names else {way: {} for way in WAYS}
        for where, names in GROUPS
    ]
    figures = {
        "nbytes": 4 * ends.NUMEL,
        "rounds": asked.rounds,
        "steps": STEPS,
        "groups": [{"where": where, "milliseconds": medians(found)}
                   for (where, _), found in zip(GROUPS, seconds, strict=True) if found["push"]],
        "applying_milliseconds": applying_ms(),
        "load_average_before": load,
        "compared": compared(seconds),
        "ray": importlib.metadata.version("ray") if ray else "not installed: left out",
        "pyarrow": importlib.metadata.version("pyarrow"),
    }  # fmt: skip
    write("server", figures)


if __name__ == "__main__":
    main()
