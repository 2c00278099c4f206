"""Our `1f1b` and `layerwise` beside `torch.distributed.pipelining`'s 1F1B: one model, one batch a step.

    python -m benchmarks.pipelines [--workers 2] [--rounds 9]

All run in the same processes, one thread each, a few steps in turn; the ratio of each round is taken, then their
median. The model is a stack of equal layers, cut evenly, so that no schedule has an advantage from where it is cut.
Torch moves activations over gloo. Ours do, too, and once more through memory that the processes share.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional as F

import tightwire as tw
from benchmarks.harness import in_processes, interleaved, ratio, write
from tightwire.recipes import layerwise, one_forward_one_backward
from tightwire.splits.stages import stage_of

OURS = ("1f1b", "layerwise", "1f1b, shared memory", "layerwise, shared memory")


def network(layers: int, width: int) -> nn.Sequential:
    """Equal layers."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)))


def contest(workers: int, microbatches: int, width: int, batch: int, rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds a step of each, in one of the processes."""
    dist.init_process_group("gloo")
    layers = 2 * workers
    cuts = tuple(range(2, layers, 2))
    x, y = torch.randn(batch, width), torch.randn(batch, width)
    theirs = _torch(network(layers, width), cuts, microbatches, x, y)
    wires = {}
    for name in OURS:
        recipe = one_forward_one_backward(workers, microbatches=microbatches, cuts=cuts) if name.startswith("1f1b") \
            else layerwise(workers, cuts=cuts)  # fmt: skip
        model = network(layers, width)
        os.environ["TIGHTWIRE_MEMORY"] = "always" if "memory" in name else "never"
        wires[name] = tw.join(recipe, model, torch.optim.SGD(model.parameters(), lr=1e-3))

    def run(wire: Any) -> None:
        wire.batch(x, y, F.mse_loss)
        wire.step()

    contestants = {"torch": theirs, **{name: (lambda wire=wire: run(wire)) for name, wire in wires.items()}}
    for _ in range(2 * workers + 1):  # fill the pipes
        for wire in wires.values():
            run(wire)
    seconds = interleaved(contestants, rounds, steps)
    for wire in wires.values():
        wire.drain()
        wire.close()
    dist.barrier()
    dist.destroy_process_group()
    return seconds


def _torch(model: nn.Sequential, cuts: tuple[int, ...], microbatches: int, x: torch.Tensor, y: torch.Tensor) -> Any:
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = stage_of(model, size, rank, cuts)
    schedule = Schedule1F1B(PipelineStage(mine, rank, size, torch.device("cpu")), microbatches, loss_fn=F.mse_loss)
    optimizer = torch.optim.SGD(mine.parameters(), lr=1e-3)

    def step() -> None:
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=y, losses=[])
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    told = (asked.workers, asked.microbatches, asked.width, asked.batch, asked.rounds, asked.steps)
    seconds = in_processes(asked.workers, contest, *told)
    figures = {name: ratio(seconds, name, "torch") for name in OURS}
    memory = {name: ratio(seconds, f"{name}, shared memory", name) for name in ("1f1b", "layerwise")}
    told_of = {**vars(asked), "seconds": seconds, "time_relative_to_torch": figures, "memory_relative_to_gloo": memory}
    write("pipelines", told_of, f"_{asked.workers}")


if __name__ == "__main__":
    main()
