"""Worlds of real processes that start in a tenth of a second: forked from a server that has torch loaded."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch._dynamo", "tightwire.engines.worker"])  # what a child would load


def processes(workers: int, work: Callable[..., T], *args: Any, timeout_s: float = 60.0, hosts: int = 1) -> list[T]:
    """Run ``work(*args)`` in processes that find torchrun's environment; return what each returned."""
    port = free_port()
    started = [start(rank, workers, work, *args, port=port, hosts=hosts) for rank in range(workers)]
    try:
        return collect(started, timeout_s)
    finally:
        for process, _ in started:
            if process.is_alive():
                process.kill()
            process.join()


def start(
    rank: int, workers: int, work: Callable[..., Any], *args: Any, port: int, hosts: int = 1
) -> tuple[BaseProcess, Connection]:
    """Start one process of a world."""
    ours, theirs = _context.Pipe(duplex=False)
    environment = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TIGHTWIRE_HOST": f"host{rank * hosts // workers}",
    }
    process = _context.Process(target=_live, args=(theirs, environment, work, args))
    process.start()
    theirs.close()
    return process, ours


def collect(started: list[tuple[BaseProcess, Connection]], timeout_s: float) -> list[Any]:
    """Every process' result, or the first failure."""
    deadline = monotonic() + timeout_s
    results: dict[int, Any] = {}
    while len(results) < len(started):
        open_ends = {id(end): k for k, (_, end) in enumerate(started) if k not in results}
        ready = wait([end for k, (_, end) in enumerate(started) if k not in results], max(0.0, deadline - monotonic()))
        assert ready, f"processes {sorted(set(range(len(started))) - set(results))} did not end in {timeout_s} s"
        for end in ready:
            rank = open_ends[id(end)]
            try:
                kind, value = pickle.loads(end.recv_bytes())  # type: ignore[union-attr]
            except EOFError:
                raise AssertionError(f"process {rank} died without a word") from None
            assert kind == "result", f"process {rank} failed:\n{value}"
            results[rank] = value
    return [results[rank] for rank in range(len(started))]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _live(end: Connection, environment: dict[str, str], work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    import torch  # noqa: PLC0415 -- only in the child

    os.environ.update(environment)
    torch.set_num_threads(1)
    try:
        end.send_bytes(pickle.dumps(("result", work(*args))))  # plain: tensors by value, not by handle
    except BaseException:
        end.send_bytes(pickle.dumps(("error", traceback.format_exc())))
