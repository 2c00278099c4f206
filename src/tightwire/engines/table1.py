"""Table 1 of the layer-wise paper, its speed: one network, several ways to train it on P workers, each timed alike.

    serial        one process
    ceiling       P such processes at once, which know nothing of each other: what the machine gives at most
    synchronous   the minibatch divided over P workers, gradients all-reduced
    asgd          a minibatch a worker, gradients to a server, no order
    layer-wise    stages of whole layers and the columns of the last one dealt out, balanced by measured times
     … half       the same, with activations and errors as halves
     … gloo, … memory   the same, with messages over sockets, or through shared memory, whatever the machine has
    whole layers  the same without dealing out

Every process has one thread. A figure is samples a second of all workers together; S is its ratio to serial. Rounds
last about as long for all of them: where workers share a minibatch, more are timed.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire import models
from tightwire.algebra.errors import TightwireError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.algebra.split import Cut
from tightwire.engines.forked import fork, preload, wait
from tightwire.engines.leash import obey_leash
from tightwire.recipes.asgd import asgd
from tightwire.recipes.compressed import compressed
from tightwire.recipes.layerwise import layerwise
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.wire import Wire
from tightwire.splits.balance import Layer, measure

_RATE = 1e-3
_PATIENCE_S = 600.0
_WARM_SHARE = 8  # of a minibatch, before a plain loop is timed


@dataclass(frozen=True)
class Size:
    """The network and its minibatch; ``steps`` minibatches a worker are timed, ``rounds`` times."""

    inputs: int = 462
    width: int = 2048
    outputs: int = 10_217
    batch: int = 1024
    steps: int = 1
    rounds: int = 3

    def network(self) -> nn.Sequential:
        """Seven hidden layers."""
        torch.manual_seed(0)
        made = models.make("dnn7", inputs=(self.inputs,), classes=self.outputs, width=self.width)
        assert isinstance(made, nn.Sequential)
        return made

    def minibatch(self, count: int) -> tuple[Tensor, Tensor]:
        """Made-up frames: what they are does not matter to time."""
        return torch.randn(count, self.inputs), torch.randint(self.outputs, (count,))


@dataclass(frozen=True)
class Spent:
    """Of one worker, a minibatch: processor time of the thread that computes, time waited for others, bytes sent."""

    busy_s: float | None = None
    waited_s: float = 0.0
    tx_bytes_a_minibatch: float = 0.0


def layers_of(size: Size) -> list[Layer]:
    """The measured cost of every layer, in a process with one thread."""
    found = _processes(1, "layers", size, {})[0]
    return [Layer(**layer) for layer in found["layers"]]


def timed(system: str, workers: int, size: Size, plan: dict[str, Any]) -> dict[str, Any]:
    """Samples a second of all workers together, one figure a round, and what each worker waited."""
    said = _processes(workers, system, replace(size, steps=minibatches(system, workers, size, plan)), plan)
    together = [sum(one["samples"][k] / one["seconds"][k] for one in said) for k in range(size.rounds)] \
        if system in ("ceiling", "asgd") else \
        [said[0]["samples"][k] / max(one["seconds"][k] for one in said) for k in range(size.rounds)]  # fmt: skip
    return {
        "system": system,
        "workers": workers,
        "samples_per_second": statistics.median(together),
        "rounds": together,
        **{key: [one[key] for one in said] for key in ("busy_s", "waited_s", "tx_bytes_a_minibatch")},
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


# ── in the processes ──────────────────────────────────────────────────────────────────────────────────────────────


def _layers(size: Size, plan: dict[str, Any]) -> dict[str, Any]:
    x, y = size.minibatch(size.batch)
    return {"layers": [asdict(layer) for layer in measure(size.network(), x, y)]}


def _alone(size: Size, plan: dict[str, Any]) -> dict[str, Any]:
    """A plain loop; several of them begin together."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    model = size.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    x, y = size.minibatch(size.batch)

    def step(some: int) -> None:
        F.cross_entropy(model(x[:some]), y[:some]).backward()
        optimizer.step()
        optimizer.zero_grad()

    step(max(1, size.batch // _WARM_SHARE))
    seconds = []
    for _ in range(size.rounds):
        if dist.is_initialized():
            dist.barrier()
        begin = perf_counter()
        for _ in range(size.steps):
            step(size.batch)
        seconds.append(perf_counter() - begin)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    return _said(size, seconds, size.batch * size.steps)


def _joined(recipe: AnyRecipe, size: Size, *, share: int, warm: int) -> dict[str, Any]:
    """Any recipe; a worker's minibatch is a share of the whole one."""
    model = size.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    x, y = size.minibatch(share)
    settings = Settings(exchange_timeout_s=_PATIENCE_S, step_timeout_s=_PATIENCE_S)
    with join(recipe, model, optimizer, settings=settings) as wire:
        _steps(wire, x, y, warm)
        seconds, waited, sent, computed = [], _waited(wire), wire.ledger.tx_bytes, thread_time()
        for _ in range(size.rounds):
            if wire.lockstep and wire.pipeline is None:
                wire.agree(False)
            begin = perf_counter()
            _steps(wire, x, y, size.steps)
            seconds.append(perf_counter() - begin)
        count = size.rounds * size.steps
        spent = Spent(
            (thread_time() - computed) / count, (_waited(wire) - waited) / count, (wire.ledger.tx_bytes - sent) / count
        )
        samples = len(x) * size.steps * (1 if wire.pipeline is not None or not wire.lockstep else wire.size)
        return _said(size, seconds, samples, spent)


def _steps(wire: Wire, x: Tensor, y: Tensor, count: int) -> None:
    for _ in range(count):
        wire.batch(x, y, F.cross_entropy)
        wire.step()


def _waited(wire: Wire) -> float:
    return wire.pipeline.waited_s if wire.pipeline is not None else 0.0


def _said(size: Size, seconds: list[float], samples: float, spent: Spent | None = None) -> dict[str, Any]:
    """What a process tells the others about its rounds."""
    return {"seconds": seconds, "samples": [samples] * size.rounds, **asdict(spent or Spent())}


def _split(size: Size, plan: dict[str, Any]) -> dict[str, Any]:
    cut = Cut(tuple(plan["cuts"]), plan["wide"], tuple(plan["columns"]))
    recipe: AnyRecipe = layerwise(plan["stages"], cuts=cut.cuts, wide=cut.wide, columns=cut.columns)
    if plan.get("codec"):
        recipe = compressed(recipe, plan["codec"])
    return _joined(recipe, size, share=size.batch, warm=2 * plan["stages"] - 1)


def _synchronous(size: Size, plan: dict[str, Any]) -> dict[str, Any]:
    return _joined(sync_sgd(), size, share=size.batch // int(os.environ["WORLD_SIZE"]), warm=2)


def _asgd(size: Size, plan: dict[str, Any]) -> dict[str, Any]:
    return _joined(asgd(), size, share=size.batch, warm=1)


_SYSTEMS: dict[str, Callable[[Size, dict[str, Any]], dict[str, Any]]] = {
    "layers": _layers,
    "serial": _alone,
    "ceiling": _alone,
    "synchronous": _synchronous,
    "asgd": _asgd,
    "layer-wise": _split,
    "layer-wise half": _split,
    "layer-wise gloo": _split,
    "layer-wise memory": _split,
    "whole layers": _split,
}


def _processes(workers: int, system: str, size: Size, plan: dict[str, Any]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        preload()
        port = _free_port()
        started = [
            fork(_live, folder, system, asdict(size), plan, env=_environment(rank, workers, port, system),
                 log=Path(folder) / f"{rank}.log")
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


def _live(folder: str, system: str, size: dict[str, Any], plan: dict[str, Any]) -> None:
    obey_leash()
    torch.set_num_threads(1)
    rank = os.environ.get("RANK", "0")
    said = _SYSTEMS[system](Size(**size), plan)
    partial = Path(folder) / f"{rank}.partial"
    partial.write_text(json.dumps(said), encoding="utf-8")
    partial.rename(Path(folder) / f"{rank}.json")


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
