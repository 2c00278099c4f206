"""What all benchmarks share: processes, interleaved timing, and results as JSON beside the command and the machine."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import socket
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

RESULTS = Path(__file__).parent / "results"


def in_processes(workers: int, work: Callable[..., Any], *args: Any) -> Any:
    """Run ``work(*args)`` in processes with torchrun's environment and one thread each; return rank 0's result."""
    context = multiprocessing.get_context("spawn")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ours, theirs = context.Pipe(duplex=False)
    started = [context.Process(target=_live, args=(rank, workers, port, theirs, work, args)) for rank in range(workers)]
    for process in started:
        process.start()
    try:
        while not ours.poll(0.2):
            if any(process.exitcode not in (None, 0) for process in started):
                raise SystemExit("a benchmark process failed; its error is above")
        return ours.recv()
    finally:
        for process in started:
            process.join(10)
            if process.is_alive():
                process.kill()


def _live(rank: int, workers: int, port: int, end: Any, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(workers), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(workers),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
    )  # fmt: skip
    torch.set_num_threads(1)
    result = work(*args)
    if rank == 0:
        end.send(result)


def interleaved(contestants: dict[str, Callable[[], None]], rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds a step, one figure a round and contestant; the order changes from round to round."""
    for run in contestants.values():
        for _ in range(3):
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        names = list(contestants)
        for name in names if number % 2 == 0 else reversed(names):
            if dist.is_initialized():
                dist.barrier()
            begin = time.perf_counter()
            for _ in range(steps):
                contestants[name]()
            seconds[name].append((time.perf_counter() - begin) / steps)
    return seconds


def ratio(seconds: dict[str, list[float]], ours: str, theirs: str) -> dict[str, Any]:
    """Our time ÷ theirs, as the median of the rounds' own ratios, with the spread."""
    ratios = [mine / other for mine, other in zip(seconds[ours], seconds[theirs], strict=True)]
    return {
        "median": statistics.median(ratios),
        "quartiles": statistics.quantiles(ratios, n=4),
        "rounds": len(ratios),
    }


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    models = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.platform(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def write(name: str, figures: dict[str, Any]) -> Path:
    """Write one benchmark's figures under ``benchmarks/results``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {
        "benchmark": name,
        "command": "python -m "
        + ".".join(["benchmarks", Path(sys.argv[0]).stem])
        + "".join(f" {a}" for a in sys.argv[1:]),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "tightwire": version("tightwire"),
        },
        "machine": machine(),
        **figures,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    return path
