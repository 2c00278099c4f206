"""Hogwild! on this machine: how many steps are lost when workers collide, and what a second worker brings.

    python -m benchmarks.hogwild

Lost steps: every worker adds 1 to numbers in the shared memory; what is missing in the end was lost. Throughput:
logistic regression whose samples touch 32 of a million weights, samples a second of all workers together.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import tightwire as tw
from benchmarks.harness import in_processes, write
from tightwire.recipes import hogwild

FEATURES, TOUCHED, BATCH = 1_000_000, 32, 64


class Numbers(nn.Module):
    """Numbers that every step adds 1 to."""

    def __init__(self, numel: int) -> None:
        super().__init__()
        self.numbers = nn.Parameter(torch.zeros(numel))


def lost(steps: int, numel: int) -> dict[str, float]:
    """The fraction of steps that did not arrive."""
    model = Numbers(numel)
    with tw.join(hogwild(), model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
        wire.agree(False)
        for _ in range(steps):
            model.numbers.sum().neg().backward()
            wire.step()
        workers = wire.size
    return {"lost": 1 - float(model.numbers.detach().double().mean()) / (workers * steps)}


def sparse(steps: int) -> dict[str, float]:
    """Samples a second of all workers on a sparse problem."""
    model = nn.EmbeddingBag(FEATURES, 1, mode="sum", sparse=True)
    generator = torch.Generator()
    with tw.join(hogwild(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        generator.manual_seed(wire.rank)
        wire.agree(False)
        begin = time.perf_counter()
        for _ in range(steps):
            x = torch.randint(FEATURES, (BATCH, TOUCHED), generator=generator)
            F.binary_cross_entropy_with_logits(model(x).squeeze(1), (x[:, 0] % 2).float()).backward()
            wire.step()
        wire.agree(False)
        seconds = time.perf_counter() - begin
        workers = wire.size
    return {"samples_per_second": workers * steps * BATCH / seconds}


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for workers in (1, 2, 4):
        for numel in (16, 4096, 1_000_000):
            steps = max(50, arguments.steps // (1 + numel // 4096))
            rows.append(
                {"workers": workers, "numbers": numel, "steps": steps, **in_processes(workers, lost, steps, numel)}
            )
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(arguments.rounds):
        for workers, found in rates.items():
            found.append(in_processes(workers, sparse, arguments.steps)["samples_per_second"])
    write("hogwild", {"lost": rows, "sparse": {str(workers): found for workers, found in rates.items()}})
    for row in rows:
        print(row)
    print(rates, "speed-up", max(rates[2]) / max(rates[1]))


if __name__ == "__main__":
    main()
