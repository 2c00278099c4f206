"""Table 1 of the layer-wise paper, its speed: one network, several ways to train it on P workers, each timed alike.

    serial        one process
    ceiling       P such processes at once, which know nothing of each other: what the machine gives at most
    synchronous   the minibatch divided over P workers, gradients all-reduced
    asgd          a minibatch a worker, gradients to a server, no order
    layer-wise    stages of whole layers and the columns of the last one dealt out, balanced by measured times
     … half       the same, with activations and errors as halves
     … gloo, … memory   the same, with messages over sockets, or through shared memory, whatever the machine has
    whole layers  the same without dealing out

Every process has one thread, on a core of its own where there are two for each (`engines.cores`). A figure is samples
a second of all workers together; S is its ratio to serial. Rounds last about as long for all of them: where workers
share a minibatch, more are timed.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from tightwire.algebra.errors import TightwireError
from tightwire.engines.forked import fork, preload, wait
from tightwire.engines.leash import obey_leash
from tightwire.engines.table1_work import WORK, Size, Task
from tightwire.files import write_json
from tightwire.splits.balance import Layer

__all__ = ["Size", "cores_of", "layers_of", "minibatches", "timed"]


def cores_of() -> dict[str, Any]:
    """The order in which workers take cores, and the rates of the first one beside each of the others."""
    return _processes(1, "cores", Size(), {}, ())[0]


def layers_of(size: Size, cores: Sequence[int] = ()) -> list[Layer]:
    """The measured cost of every layer, in a process with one thread."""
    found = _processes(1, "layers", size, {}, cores)[0]
    return [Layer(**layer) for layer in found["layers"]]


def timed(system: str, workers: int, size: Size, plan: dict[str, Any], cores: Sequence[int] = ()) -> dict[str, Any]:
    """Samples a second of all workers together, one figure a round, what each waited, and who had which columns."""
    said = _processes(workers, system, replace(size, steps=minibatches(system, workers, size, plan)), plan, cores)
    together = [sum(one["samples"][k] / one["seconds"][k] for one in said) for k in range(size.rounds)] \
        if system in ("ceiling", "asgd") else \
        [said[0]["samples"][k] / max(one["seconds"][k] for one in said) for k in range(size.rounds)]  # fmt: skip
    return {
        "system": system,
        "workers": workers,
        "samples_per_second": statistics.median(together),
        "rounds": together,
        "seconds": [one["seconds"] for one in said],
        **{key: [one[key] for one in said] for key in ("busy_s", "waited_s", "tx_bytes_a_minibatch")},
        **({"columns": said[0]["columns"], "trials": said[0]["trials"]} if "columns" in said[0] else {}),
    }


def minibatches(system: str, workers: int, size: Size, plan: dict[str, Any]) -> int:
    """How many a round has, of those that a worker sees.

    >>> minibatches("ceiling", 8, Size(), {}), minibatches("synchronous", 8, Size(), {})
    (1, 8)
    >>> minibatches("whole layers", 8, Size(), {"planned_speedup": 2.2})
    2
    """
    if system == "synchronous":
        return size.steps * workers
    return max(1, round(size.steps * float(plan.get("planned_speedup", 1.0))))


def _processes(
    workers: int, system: str, size: Size, plan: dict[str, Any], cores: Sequence[int]
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        preload()
        port = _free_port()
        started = [
            fork(_live, folder, system, asdict(size), plan, _core(rank, workers, cores),
                 env=_environment(rank, workers, port, system), log=Path(folder) / f"{rank}.log")
            for rank in range(workers)
        ]  # fmt: skip
        wait(started)
        answers = [Path(folder) / f"{rank}.json" for rank in range(workers)]
        missing = next((rank for rank, answer in enumerate(answers) if not answer.exists()), None)
        if missing is not None:
            words = (Path(folder) / f"{missing}.log").read_text(encoding="utf-8")
            raise TightwireError(
                f"worker {missing} of {system} ended without a figure; its last words: {words[-2000:]}"
            )
        return [json.loads(answer.read_text(encoding="utf-8")) for answer in answers]


def _core(rank: int, workers: int, cores: Sequence[int]) -> int | None:
    """A core of its own for the thread that computes, if others are left for those that carry messages."""
    return cores[rank] if 2 * max(2, workers) <= len(cores) else None


def _live(folder: str, system: str, size: dict[str, Any], plan: dict[str, Any], core: int | None) -> None:
    obey_leash()
    torch.set_num_threads(1)
    rank = os.environ.get("RANK", "0")
    said = WORK[system](Task(Size(**size), plan, core))
    write_json(Path(folder) / f"{rank}.json", said)


def _environment(rank: int, workers: int, port: int, system: str) -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if system in ("layer-wise gloo", "layer-wise memory"):
        threads["TIGHTWIRE_MEMORY"] = "always" if system.endswith("memory") else "never"
    if workers == 1:
        return threads
    return {
        "RANK": str(rank), "WORLD_SIZE": str(workers), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(workers),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **threads,
    }  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
