"""A worker of a run whose servers are killed: it trains, and every push leaves a mark that can be counted afterwards.

The network carries two more parameters, one on its first shard and one on its last, a number for each worker, which
enter no prediction. Their gradient is 1/lr at the worker's own place, so that each push that is applied moves them by
one: in the end they say how many were.
"""

from __future__ import annotations

import os
import time
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from tightwire import data as workloads
from tightwire.engines.leash import obey_leash
from tightwire.exchanges.server import server
from tightwire.files import write_json
from tightwire.links.malloc import keep_memory
from tightwire.recipes.asgd import asgd
from tightwire.run.join import join
from tightwire.run.settings import Settings

STRUCK = "struck"  # the file that says that all strikes have been made
_LR, _BATCH = 0.5, 64
_PATIENCE_S = 45.0
_PAUSE_S, _LONG_PAUSE_S = 0.01, 0.2


class Marked(nn.Module):
    """A network between the marks."""

    def __init__(self, net: nn.Module, workers: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(workers))
        self.net = net
        self.last = nn.Parameter(torch.zeros(workers))

    def forward(self, x: Tensor) -> Tensor:
        """What the network says."""
        out: Tensor = self.net(x)
        return out


def work(folder: str, steps: int, seed: int, shards: int) -> None:
    """Train for so many steps; the environment says as whom. Writes what became of it into the folder."""
    obey_leash()
    keep_memory()  # before anything loads gRPC
    torch.set_num_threads(1)
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    data = workloads.load("digits", None)
    x_N, y_N = _whole(data.train)
    torch.manual_seed(seed)
    model = Marked(nn.Linear(prod(data.inputs), data.classes), workers)  # small: what is tried is not the network
    optimizer = torch.optim.SGD(model.parameters(), lr=_LR)
    dice = torch.Generator().manual_seed(1000 * seed + rank)
    began_s = time.monotonic()
    recipe = asgd().but(exchange=server(shards))
    with join(recipe, model, optimizer, settings=Settings(seed=seed, exchange_timeout_s=_PATIENCE_S)) as wire:
        for step in range(steps):
            rate = optimizer.param_groups[0]["lr"] = _LR * (1 - step / steps)
            batch = torch.randint(len(y_N), (_BATCH,), generator=dice)
            marks = model.first[rank] + model.last[rank]
            (F.cross_entropy(model(x_N[batch]), y_N[batch]) + marks / rate).backward()
            wire.step()
            _pause(Path(folder) / STRUCK, step / steps)
        with wire.answer() as answer:
            x_T, y_T = _whole(data.test)
            accuracy = float((answer(x_T).argmax(1) == y_T).float().mean())
            counts = [round(-float(marks[rank]), 3) for marks in (model.first, model.last)]
    told = {"rank": rank, "steps": steps, "accuracy": accuracy, "marks": counts, "seconds": time.monotonic() - began_s}
    write_json(Path(folder) / f"rank-{rank}.json", told)


def _pause(struck: Path, done: float) -> None:
    """Go slowly until all strikes have been made: there should be something to strike at."""
    if struck.exists():
        return
    time.sleep(_PAUSE_S if done < 0.5 else _LONG_PAUSE_S)
    deadline = time.monotonic() + _PATIENCE_S
    while done > 0.9 and not struck.exists() and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


def _whole(examples: Dataset[Any]) -> tuple[Tensor, Tensor]:
    x, y = workloads.collate([examples[i] for i in range(len(examples))])  # type: ignore[arg-type]
    return x, y
