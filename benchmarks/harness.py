"""What all benchmarks share: processes, interleaved timing, and results as JSON beside the command and the machine."""

from __future__ import annotations

import json
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tightwire import __version__
from tightwire.engines.forked import fork, preload, wait
from tightwire.engines.leash import obey_leash
from tightwire.lab import Lab
from tightwire.lab.enter import enter
from tightwire.lab.names import NAMESPACES

RESULTS = Path(__file__).parent / "results"


def in_processes(workers: int, work: Callable[..., Any], *args: Any, lab: str | None = None) -> Any:
    """Run ``work(*args)`` in processes with torchrun's environment and one thread each; return rank 0's result.

    With ``lab`` each process is on a host of its own, behind a link of that rate.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        preload()
        if lab is None:
            port = _free_port()
            started = [
                fork(
                    _live,
                    None,
                    str(answer),
                    work,
                    args,
                    env=_environment(rank, workers, port),
                    log=Path(folder) / f"{rank}.log",
                )
                for rank in range(workers)
            ]
            wait(started)
        else:
            with Lab(workers, lab) as built:
                started = [
                    fork(_live, str(NAMESPACES / host.namespace), str(answer), work, args,
                         env=built.environment(host.rank), log=Path(folder) / f"{host.rank}.log")
                    for host in built.hosts
                ]  # fmt: skip
                wait(started)
        if not answer.exists():
            logs = "\n".join(path.read_text() for path in sorted(Path(folder).glob("*.log")))
            raise SystemExit(f"a benchmark process failed:\n{logs[-4000:]}")
        return json.loads(answer.read_text())


def _live(namespace: str | None, answer: str, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if namespace is not None:
        enter(namespace)
    obey_leash()
    torch.set_num_threads(1)
    result = work(*args)
    if os.environ["RANK"] == "0":
        Path(answer).write_text(json.dumps(result))


def _environment(rank: int, workers: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank), "WORLD_SIZE": str(workers), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(workers),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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


def origin() -> dict[str, Any]:
    """When and by what figures are made."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "tightwire": __version__,
        },
        "machine": machine(),
    }


def write(name: str, figures: dict[str, Any], variant: str = "", *, folder: Path = RESULTS) -> Path:
    """Write one benchmark's figures under ``benchmarks/results``; trials go to another folder."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}{variant}.json"
    record = {
        "benchmark": name,
        "command": "python -m "
        + ".".join(["benchmarks", Path(sys.argv[0]).stem])
        + "".join(f" {a}" for a in sys.argv[1:]),
        **origin(),
        **figures,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    return path
