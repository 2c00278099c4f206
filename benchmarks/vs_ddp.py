"""Our overlapped `sync-sgd` step against DDP's: a 10 M-parameter MLP, 2 processes on loopback, interleaved.

python -m benchmarks.vs_ddp [--workers 2] [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import tightwire as tw
from benchmarks.harness import in_processes, interleaved, ratio, write
from tightwire.telemetry import event
from tightwire.telemetry.sinks import Memory

BATCH = 64


NETS = {"mlp": [784, 2048, 2048, 2048, 10], "lenet": [784, 300, 100, 10]}


def network(name: str) -> nn.Sequential:
    """Fully connected layers: 10.02 M parameters (mlp), or LeNet-300-100 (lenet)."""
    torch.manual_seed(0)
    widths = NETS[name]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def contest(net: str, rounds: int) -> dict[str, Any]:
    """Rank by rank: the same network under DDP, under us, and alone."""
    dist.init_process_group("gloo")
    x, y = torch.randn(BATCH, 784), torch.randint(10, (BATCH,))

    theirs = DistributedDataParallel(network(net))
    their_optimizer = torch.optim.SGD(theirs.parameters(), lr=0.01)

    def ddp() -> None:
        F.cross_entropy(theirs(x), y).backward()
        their_optimizer.step()
        their_optimizer.zero_grad()

    alone = network(net)
    alone_optimizer = torch.optim.SGD(alone.parameters(), lr=0.01)

    def compute() -> None:
        F.cross_entropy(alone(x), y).backward()
        alone_optimizer.step()
        alone_optimizer.zero_grad()

    ours = network(net)
    wire = tw.join(tw.recipes.sync_sgd(), ours, torch.optim.SGD(ours.parameters(), lr=0.01))

    def tightwire() -> None:
        F.cross_entropy(ours(x), y).backward()
        wire.step()

    seconds = interleaved({"ddp": ddp, "tightwire": tightwire, "compute": compute}, rounds, steps=4)
    wire.close()
    order = overlap(net, x, y)
    dist.destroy_process_group()
    return {
        "workers": wire.size,
        "parameters": sum(p.numel() for p in alone.parameters()),
        "batch": BATCH,
        "step_ms": {name: 1e3 * statistics.median(values) for name, values in seconds.items()},
        "tightwire_over_ddp": ratio(seconds, "tightwire", "ddp"),
        "overlap": order,
    }


def overlap(net: str, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    """When the first exchange of a step started, and when the last gradient of that step became ready."""
    model, sink = network(net), Memory()
    wire = tw.join(
        tw.recipes.sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.01), settings=tw.Settings(events=sink)
    )
    returned = []
    for _ in range(4):
        F.cross_entropy(model(x), y).backward()
        returned.append(time.monotonic())
        wire.step()
    wire.close()
    last = [e for e in sink.events if e.step == 3]
    started = min(e.time_s for e in last if isinstance(e, event.Started))
    return {
        "first_exchange_started_before_backward_returned_ms": 1e3 * (returned[3] - started),
        "holds": started < returned[3],
    }


def import_seconds(rounds: int = 5) -> float:
    """What importing tightwire costs a script that has imported torch, as the median of fresh interpreters."""
    script = (
        "import time, torch; begin = time.perf_counter(); "
        "import tightwire as tw; tw.join, tw.recipes.sync_sgd; print(time.perf_counter() - begin)"
    )
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, check=True) for _ in range(rounds)]
    return statistics.median(float(run.stdout) for run in runs)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--net", choices=NETS, default="mlp")
    parser.add_argument("--lab", help="the rate of each host's link")
    asked = parser.parse_args()
    figures = in_processes(asked.workers, contest, asked.net, asked.rounds, lab=asked.lab)
    figures |= {"net": asked.net, "link": f"lab, {asked.lab}" if asked.lab else "loopback"}
    write("vs_ddp", {**figures, "import_seconds": import_seconds()}, f"_lab_{asked.lab}" if asked.lab else "")


if __name__ == "__main__":
    main()
