"""A step over a real link, as a ratio to the same step without any exchange: DDP and its hooks beside ours.

    python -m benchmarks.step_time [--rate 1gbit] [--rounds 9]

MLP 784-2048-2048-2048-10 (10.0 M parameters), batch 64 each, 4 hosts of the lab, interleaved, median of rounds. Needs
root.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import tightwire as tw
from benchmarks.harness import in_processes, interleaved, ratio, write
from benchmarks.vs_ddp import BATCH, network
from tightwire.recipes import dgc

WARM_UP = 0.25


def contest(rounds: int, slow_rounds: int) -> dict[str, Any]:
    """Rank by rank; dense contestants take few rounds where the wire is slow."""
    dist.init_process_group("gloo")
    x, y = torch.randn(BATCH, 784), torch.randint(10, (BATCH,))
    alone = network("mlp")
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.01)

    def compute() -> None:
        F.cross_entropy(alone(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    fast: dict[str, Callable[[], None]] = {"compute": compute}
    wires = []
    for name, recipe in {
        "dgc": dgc(momentum=0.9),
        "dgc, log8 and rice": dgc(momentum=0.9, values="log8", gaps="rice"),
    }.items():
        fast[name], wire = ours(recipe, x, y)
        wires.append(wire)
    fast["DDP, PowerSGD rank 1"] = theirs(x, y, "powersgd")
    slow = {"compute": compute, "DDP": theirs(x, y, "none"), "DDP, fp16": theirs(x, y, "fp16")}
    slow["dgc, warm-up at 0.25"], wire = ours(dgc(WARM_UP, momentum=0.9), x, y)
    seconds = interleaved(fast, rounds, steps=4)
    slow_seconds = interleaved(slow, slow_rounds, steps=1)
    figures = {name: ratio(seconds, name, "compute") for name in fast if name != "compute"}
    figures |= {name: ratio(slow_seconds, name, "compute") for name in slow if name != "compute"}
    for open_wire in (*wires, wire):
        open_wire.close()
    dist.destroy_process_group()
    return {
        "compute_ms": 1e3 * statistics.median(seconds["compute"]),
        "step_over_compute": figures,
        "warm_up_over_ddp": ratio(slow_seconds, "dgc, warm-up at 0.25", "DDP"),
    }


def ours(recipe: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[Callable[[], None], Any]:
    """A step of ours."""
    model = network("mlp")
    wire = tw.join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.01))

    def step() -> None:
        F.cross_entropy(model(x), y).backward()
        wire.step()

    return step, wire


def theirs(x: torch.Tensor, y: torch.Tensor, hook: str) -> Callable[[], None]:
    """A step of DDP, with one of its communication hooks."""
    model = DistributedDataParallel(network("mlp"), bucket_cap_mb=1000)  # its PowerSGD wants one bucket on gloo
    if hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--slow-rounds", type=int, default=3, help="rounds of what sends densely")
    asked = parser.parse_args()
    figures = in_processes(asked.workers, contest, asked.rounds, asked.slow_rounds, lab=asked.rate)
    parameters = sum(p.numel() for p in nn.Module.parameters(network("mlp")))
    write(
        "step_time",
        {"workers": asked.workers, "rate": asked.rate, "parameters": parameters, **figures},
        f"_{asked.rate}",
    )


if __name__ == "__main__":
    main()
