"""The ledger next to the kernel's counters: LeNet-300-100, 4 hosts of the lab at 1 Gbit/s, 200 steps.

    python -m benchmarks.lab_bytes [--rate 1gbit] [--steps 200]

Needs root. The images are noise of MNIST's shape; accuracy plays no part here.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import torch

from benchmarks.harness import write
from tightwire.engines.config import RunConfig
from tightwire.engines.start import run

RECIPES = ("sync-sgd", "local-sgd", "gossip-pull", "sync-easgd", "diloco", "one-bit", "powersgd", "dgc")
WORKERS = 4

Split = tuple[torch.Tensor, torch.Tensor]


def noise() -> tuple[Split, Split]:
    """Images of MNIST's shape, and labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4096, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (4096,), generator=generator)
    return (images, labels), (images[:256], labels[:256])


def measure(recipe: str, rate: str, steps: int) -> dict[str, Any]:
    """One run; bytes by the ledger and by the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        wire = run(
            RunConfig(
                recipe=recipe, workers=WORKERS, data="benchmarks.lab_bytes:noise", model="lenet-300-100", steps=steps,
                lab=rate, folder=folder,
            )
        )["wire"]  # fmt: skip
    return {
        "recipe": recipe,
        "tx_bytes": wire["tx_bytes"],
        "rx_bytes": wire["rx_bytes"],
        "measured_over_ledger_tx": wire["measured_tx_bytes"] / wire["tx_bytes"],
        "measured_over_ledger_rx": wire["measured_rx_bytes"] / wire["rx_bytes"],
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--steps", type=int, default=200)
    asked = parser.parse_args()
    rows = [measure(recipe, asked.rate, asked.steps) for recipe in RECIPES]
    write("lab_bytes", {"workers": WORKERS, "steps": asked.steps, "rate": asked.rate, "rows": rows})


if __name__ == "__main__":
    main()
