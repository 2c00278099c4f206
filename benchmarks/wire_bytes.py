"""Bytes that each recipe really sends, next to what its paper's formula says, on LeNet-300-100 with 4 workers.

    python -m benchmarks.wire_bytes [--workers 4] [--steps 20]

Runs on the in-process link, where every byte is counted by our executor. Accuracy plays no part here.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import tightwire as tw
from benchmarks.harness import write
from tightwire.algebra.recipe import AnyRecipe
from tightwire.exchanges.allreduce import halving_doubling, multi_ring, ring, tree
from tightwire.recipes import asgd, dgc, layerwise, local_sgd, one_bit, poseidon, powersgd, project_adam, sync_sgd

BATCH = 16
WIDTHS = (784, 300, 100, 10)


def network() -> nn.Sequential:
    """LeNet-300-100: 266,610 parameters."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in pairwise(WIDTHS):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def contestants(workers: int) -> dict[str, tuple[AnyRecipe, str, float]]:
    """Recipe, formula in words, and the formula's bytes that one worker sends in one step (rank 0 for trees)."""
    p, m = workers, sum(t.numel() for t in network().parameters())
    matrices = list(pairwise(WIDTHS))
    small = sum(WIDTHS[1:])
    ring_bytes = 2 * (p - 1) / p * 4
    rank1 = sum(a + b for a, b in matrices if a * b >= 2 * (a + b)) + small
    by_factors = [(a, b) for a, b in matrices if p * BATCH * (a + b) <= 2 * a * b]
    kept = sum(-(-a * b // 1000) for a, b in matrices)
    return {
        "sync-sgd, ring": (sync_sgd(ring()), "2(P−1)/P·4M", ring_bytes * m),
        "sync-sgd, halving-doubling": (sync_sgd(halving_doubling()), "2(P−1)/P·4M", ring_bytes * m),
        "sync-sgd, multi-ring": (sync_sgd(multi_ring()), "2(P−1)/P·4M", ring_bytes * m),
        "sync-sgd, tree (root)": (sync_sgd(tree()), "⌈log₂P⌉·4M", (p - 1).bit_length() * 4 * m),
        "local-sgd, tau 10": (local_sgd(10, exchange=ring()), "2(P−1)/P·4M/tau", ring_bytes * m / 10),
        "asgd": (asgd(), "4M", 4 * m),
        "one-bit": (one_bit(), "2(P−1)/P·(M/8+8·rows)", 2 * (p - 1) / p * (m / 8 + 8 * (sum(WIDTHS[1:]) + 3))),
        "powersgd, rank 1": (powersgd(1, exchange=ring()), "2(P−1)/P·4(Σ(n+m)+M₁)", ring_bytes * rank1),
        "project-adam, batch 16": (
            project_adam(),
            "4·Σ min(b(n+m), nm) + 4M₁",
            4 * (sum(min(BATCH * (a + b), a * b) for a, b in matrices) + small),
        ),
        "poseidon, batch 16": (
            poseidon(exchange=ring()),
            "(P−1)·4b·Σ(n+m) + 2(P−1)/P·4M₁",
            (p - 1) * 4 * BATCH * sum(a + b for a, b in by_factors)
            + ring_bytes * (m - sum(a * b for a, b in by_factors)),
        ),
        "dgc, density 0.001": (dgc(0.001), "(P−1)·(6·dM + 4M₁)", (p - 1) * (6 * kept + 4 * small)),
    }


def measure(recipe: AnyRecipe, workers: int, steps: int) -> dict[str, Any]:
    """Rank 0's ledger after some steps."""

    def one(rank: int) -> dict[str, Any]:
        model = network()
        with tw.join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.01)) as wire:
            for step in range(steps):
                generator = torch.Generator().manual_seed(1000 * step + rank)
                x = torch.randn(BATCH, 784, generator=generator)
                F.cross_entropy(model(x), torch.randint(10, (BATCH,), generator=generator)).backward()
                wire.step()
            return {
                "tx_bytes_a_step": wire.ledger.tx_bytes / steps,
                "rx_bytes_a_step": wire.ledger.rx_bytes / steps,
                "payload_ratio": wire.ledger.payload_ratio,
                "known": sorted({row["known"] for row in wire.ledger.rows()}),
            }

    return tw.together(workers, one)[0]


def boundary_bytes(steps: int) -> dict[str, Any]:
    """What crosses the boundary of the two-stage layer-wise split, a minibatch."""

    def one(rank: int) -> dict[str, Any]:
        model = network()
        with tw.join(layerwise(2, cuts=(2,)), model, torch.optim.SGD(model.parameters(), lr=0.01)) as wire:
            for _ in range(steps):
                wire.batch(torch.randn(BATCH, 784), torch.zeros(BATCH, dtype=torch.long), F.cross_entropy)
                wire.step()
            wire.drain()
            return {"tx_bytes_a_step": wire.ledger.tx_bytes / steps, "rx_bytes_a_step": wire.ledger.rx_bytes / steps}

    return tw.together(2, one)[0]


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    rows = []
    for name, (recipe, formula, formula_bytes) in contestants(arguments.workers).items():
        measured = measure(recipe, arguments.workers, arguments.steps)
        rows.append({"recipe": name, "formula": formula, "formula_bytes": formula_bytes, **measured})
    split = boundary_bytes(arguments.steps)
    rows.append({"recipe": "layerwise, 2 stages", "formula": "4·b·width", "formula_bytes": 4 * BATCH * 300,
                 "payload_ratio": None, "known": ["counted"], **split})  # fmt: skip
    write("wire_bytes", {"workers": arguments.workers, "steps": arguments.steps, "batch": BATCH,
                         "parameters": sum(t.numel() for t in network().parameters()), "rows": rows})  # fmt: skip


if __name__ == "__main__":
    main()
