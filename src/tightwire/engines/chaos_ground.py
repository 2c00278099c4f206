"""Where real chaos happens: servers and workers as processes, on the loopback or each on a host of the lab.

Whatever starts here ends here: processes are killed and namespaces removed when the ``with`` block ends, in any way.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tightwire.engines.chaos_server import keep
from tightwire.engines.chaos_worker import work
from tightwire.engines.forked import fork, preload
from tightwire.lab import Lab
from tightwire.lab.enter import enter
from tightwire.lab.names import NAMESPACES
from tightwire.links.tokens import fresh_token

_PORT = 7100


@dataclass
class Ground:
    """Processes by their places. Servers are numbered behind the workers where they are hosts of a lab."""

    folder: Path
    workers: int
    lab: Lab | None
    listens: list[str]
    secret: str = field(repr=False)
    named: int = 0  # so many servers the workers know; others join
    running: list[BaseProcess] = field(default_factory=list)
    servers: dict[int, BaseProcess] = field(default_factory=dict)
    begun: list[BaseProcess] = field(default_factory=list)  # workers

    def start_server(self, number: int) -> None:
        """Start a server, for the first time or again."""
        space = None if self.lab is None else str(NAMESPACES / self.lab.hosts[self.workers + number].namespace)
        join = self.listens[: self.named] if number >= self.named else []
        args = (self.listens[number], self.secret, str(self.status_file(number)), space, join)
        self.servers[number] = self._fork(keep, args, {}, f"server-{number}.log")

    def add_server(self) -> int:
        """Start one more, which nobody knows yet and which offers itself; returns its number."""
        number = len(self.listens)
        self.listens.append(_listens(self.lab, self.workers + number))
        self.start_server(number)
        return number

    def start_workers(self, *, steps: int, seed: int, copies: int, shards: int) -> None:
        """Start all workers."""
        token_file = self.folder / "token"
        token_file.write_text(f"chaos  write  {self.secret}\n", encoding="utf-8")
        told = {
            "TIGHTWIRE_SERVER": ",".join(self.listens[: self.named]),
            "TIGHTWIRE_TOKEN_FILE": str(token_file),
            "TIGHTWIRE_COPIES": str(copies),
            "TIGHTWIRE_KEYS": "none",
        }
        port = free_port()
        for rank in range(self.workers):
            env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            space = None
            if self.lab is not None:
                env = self.lab.environment(rank)
                space = str(NAMESPACES / self.lab.hosts[rank].namespace)
            env |= {"RANK": str(rank), "WORLD_SIZE": str(self.workers), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
            args = (space, str(self.folder), steps, seed, shards)
            self.begun.append(self._fork(_in, args, env | told, f"rank-{rank}.log"))

    def status_file(self, number: int) -> Path:
        """Where a server writes how it does."""
        return self.folder / f"server-{number}.status"

    def statuses(self) -> dict[int, list[dict[str, Any]]]:
        """What every server that runs last wrote of its copies."""
        told = {}
        for number, process in self.servers.items():
            with suppress(OSError, ValueError):
                status = json.loads(self.status_file(number).read_text(encoding="utf-8"))
                if status["pid"] == process.pid and process.is_alive():
                    told[number] = status["chains"]
        return told

    def end(self) -> None:
        """Kill whatever still runs."""
        for process in self.running:
            if process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(process.pid or 0, signal.SIGCONT)
                process.kill()
            process.join()

    def _fork(self, run: Any, args: tuple[Any, ...], env: dict[str, str], log: str) -> BaseProcess:
        process = fork(run, *args, env=env | {"OMP_NUM_THREADS": "1"}, log=self.folder / log)
        self.running.append(process)
        return process


@contextmanager
def ground(folder: Path, *, workers: int, servers: int, rate: str | None, more: int = 0) -> Iterator[Ground]:
    """A place with running servers, and room for ``more``: on hosts with links of a ``rate``, or on the loopback."""
    preload()
    folder.mkdir(parents=True, exist_ok=True)
    secret = fresh_token().secret
    with nullcontext() if rate is None else Lab(workers + servers + more, rate) as lab:
        listens = [_listens(lab, workers + number) for number in range(servers)]
        yield from _settle(Ground(folder, workers, lab, listens, secret, named=servers))


def _listens(lab: Lab | None, host: int) -> str:
    return f"grpc://127.0.0.1:{free_port()}" if lab is None else f"grpc://{lab.hosts[host].address}:{_PORT}"


def _settle(made: Ground) -> Iterator[Ground]:
    try:
        for number in range(len(made.listens)):
            made.start_server(number)
        yield made
    finally:
        made.end()


def _in(namespace: str | None, folder: str, steps: int, seed: int, shards: int) -> None:
    if namespace is not None:
        enter(namespace)
    work(folder, steps, seed, shards)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
