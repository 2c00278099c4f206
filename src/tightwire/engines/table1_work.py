"""What one process does for a row of Table 1 (`engines.table1`): a plain loop, or any recipe, timed alike."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from time import perf_counter, thread_time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire import models
from tightwire.algebra.recipe import AnyRecipe
from tightwire.engines.cores import look, mine, order_of, partner_distance, sitting_on
from tightwire.engines.table1_deal import Planned, Trial, rebalanced
from tightwire.recipes.asgd import asgd
from tightwire.recipes.compressed import compressed
from tightwire.recipes.layerwise import layerwise
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.wire import Wire
from tightwire.splits.balance import measure

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


@dataclass(frozen=True)
class Task:
    """What one process is told."""

    size: Size
    plan: dict[str, Any]
    core: int | None = None


def _cores(task: Task) -> dict[str, Any]:
    rates = look(mine())
    return {"order": order_of(mine(), partner_distance(rates)), "first_beside_others": rates}


def _layers(task: Task) -> dict[str, Any]:
    x, y = task.size.minibatch(task.size.batch)
    with sitting_on(task.core):
        return {"layers": [asdict(layer) for layer in measure(task.size.network(), x, y)]}


def _alone(task: Task) -> dict[str, Any]:
    """A plain loop; several of them begin together."""
    _meet()
    size, model = task.size, task.size.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    x, y = size.minibatch(size.batch)

    def step(some: int) -> None:
        F.cross_entropy(model(x[:some]), y[:some]).backward()
        optimizer.step()
        optimizer.zero_grad()

    seconds = []
    with sitting_on(task.core):
        step(max(1, size.batch // _WARM_SHARE))
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


def _joined(recipe: AnyRecipe, task: Task, model: nn.Module, *, share: int, warm: int) -> dict[str, Any]:
    """Any recipe; a worker's minibatch is a share of the whole one."""
    size = task.size
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    x, y = size.minibatch(share)
    settings = Settings(exchange_timeout_s=_PATIENCE_S, step_timeout_s=_PATIENCE_S)
    with join(recipe, model, optimizer, settings=settings) as wire:
        _steps(wire, x, y, warm)  # threads that carry messages are there now, and run where they like
        with sitting_on(task.core):
            seconds, spent = _rounds(wire, x, y, size)
        samples = len(x) * size.steps * (1 if wire.pipeline is not None or not wire.lockstep else wire.size)
        return _said(size, seconds, samples, spent)


def _rounds(wire: Wire, x: Tensor, y: Tensor, size: Size) -> tuple[list[float], Spent]:
    seconds, waited, sent, computed = [], _waited(wire), wire.ledger.tx_bytes, thread_time()
    for _ in range(size.rounds):
        if wire.lockstep and wire.pipeline is None:
            wire.agree(False)
        begin = perf_counter()
        _steps(wire, x, y, size.steps)
        seconds.append(perf_counter() - begin)
    count = size.rounds * size.steps
    busy_s, waited_s = (thread_time() - computed) / count, (_waited(wire) - waited) / count
    return seconds, Spent(busy_s, waited_s, (wire.ledger.tx_bytes - sent) / count)


def _steps(wire: Wire, x: Tensor, y: Tensor, count: int) -> None:
    for _ in range(count):
        wire.batch(x, y, F.cross_entropy)
        wire.step()


def _waited(wire: Wire) -> float:
    return wire.pipeline.waited_s if wire.pipeline is not None else 0.0


def _said(size: Size, seconds: list[float], samples: float, spent: Spent | None = None) -> dict[str, Any]:
    """What a process tells the others about its rounds."""
    return {"seconds": seconds, "samples": [samples] * size.rounds, **asdict(spent or Spent())}


def _split(task: Task) -> dict[str, Any]:
    """Short runs after which columns move, and then the one that counts, all in the same processes."""
    _meet()
    model, columns, trials = task.size.network(), tuple(task.plan["columns"]), list[Trial]()
    for part in task.plan["trials"] if columns else ():
        short = replace(task.size, batch=max(1, task.size.batch // part), rounds=1)
        said = _split_once(replace(task, size=short), model, columns)
        busy_s = max(said["busy_s"], said["seconds"][0] / short.steps - said["waited_s"])
        trials.append(Trial(short.batch, columns, _everyones(busy_s)))
        columns = rebalanced(trials, Planned(tuple(task.plan["layers_s"]), task.plan["column_s"] / part))
    said = _split_once(task, model, columns)
    dist.barrier()
    dist.destroy_process_group()
    return {**said, "columns": columns, "trials": [asdict(trial) for trial in trials]}


def _split_once(task: Task, model: nn.Module, columns: tuple[int, ...]) -> dict[str, Any]:
    plan = task.plan
    recipe: AnyRecipe = layerwise(plan["stages"], cuts=tuple(plan["cuts"]), wide=plan["wide"], columns=columns)
    if plan.get("codec"):
        recipe = compressed(recipe, plan["codec"])
    return _joined(recipe, task, model, share=task.size.batch, warm=2 * plan["stages"] - 1)


def _everyones(number: float) -> tuple[float, ...]:
    heard = [torch.zeros(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(heard, torch.tensor([number], dtype=torch.float64))
    return tuple(float(one) for one in heard)


def _meet() -> None:
    if "RANK" in os.environ:
        dist.init_process_group("gloo", timeout=timedelta(seconds=_PATIENCE_S))


def _synchronous(task: Task) -> dict[str, Any]:
    share = task.size.batch // int(os.environ["WORLD_SIZE"])
    return _joined(sync_sgd(), task, task.size.network(), share=share, warm=2)


def _asgd(task: Task) -> dict[str, Any]:
    return _joined(asgd(), task, task.size.network(), share=task.size.batch, warm=1)


WORK: dict[str, Callable[[Task], dict[str, Any]]] = {
    "cores": _cores,
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
