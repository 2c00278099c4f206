"""Payload ratios of DGC at 99.9% on the networks of its paper, everything included: headers, fillers, vectors.

    python -m benchmarks.payload_ratio

One exchange of a whole gradient among 2 workers of the in-process link, after some steps. Gradients are random, each
tensor with its own scale; ratios hardly depend on them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import tightwire as tw
from benchmarks.harness import write
from tightwire import models
from tightwire.recipes import dgc

NETWORKS: dict[str, tuple[dict[str, Any], float]] = {
    "resnet50": ({"inputs": (3, 224, 224), "classes": 1000}, 277),
    "alexnet": ({"inputs": (3, 227, 227), "classes": 1000}, 597),
    "lstm-lm": ({"inputs": (35,), "classes": 10_000}, 462),
}
STEPS = 3


def ratio(name: str, **how: Any) -> float:
    """Dense gradient ÷ payload, of the last step."""

    def one(rank: int) -> float:
        torch.manual_seed(0)
        model = models.make(name, **NETWORKS[name][0])
        with tw.join(dgc(0.001, **how), model, torch.optim.SGD(model.parameters(), lr=0.01)) as wire:
            for step in range(STEPS):
                before = wire.ledger.state()
                fill(model, seed=1000 * step + rank)
                wire.step()
            after = wire.ledger.state()
        dense, payload = (after[key] - before[key] for key in ("dense_bytes", "payload_bytes"))
        return float(dense / payload)

    return tw.together(2, one)[0]


def fill(model: nn.Module, seed: int) -> None:
    """A gradient for every parameter."""
    generator = torch.Generator().manual_seed(seed)
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = torch.randn(parameter.shape, generator=generator) * 10.0 ** (-number % 4)


def main() -> None:
    """Count and write the result."""
    rows = []
    for name, (_, published) in NETWORKS.items():
        row = {"network": name, "published": published, "paper's bytes": ratio(name)}
        rows.append({**row, "log8 and rice": ratio(name, values="log8", gaps="rice")})
        print(rows[-1], flush=True)
    write("payload_ratio", {"density": 0.001, "rows": rows})


if __name__ == "__main__":
    main()
