"""How much each layer bears: the score of a network in which one layer alone is pruned, at several densities.

Han, Pool, Tran, Dally: Learning both Weights and Connections for Efficient Neural Networks. NIPS 2015, figure 6.
The points are data for a plot, one line a layer; no retraining takes place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from tightwire.compress.prune.choose import by_density
from tightwire.compress.prune.masks import prunable
from tightwire.compress.prune.patterns import Pattern

DENSITIES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05)


@dataclass(frozen=True)
class Point:
    """One layer at one density, and the score of the whole network then."""

    layer: str
    density: float
    score: float


@torch.no_grad()
def scan(
    model: nn.Module,
    score: Callable[[nn.Module], float],
    *,
    densities: Sequence[float] = DENSITIES,
    pattern: Pattern | None = None,
) -> list[Point]:
    """Prune each layer alone to each density and call ``score``; the model is as before afterwards."""
    points = []
    for name, weight in prunable(model).items():
        whole = weight.detach().clone()
        try:
            for density in densities:
                weight.copy_(whole * by_density({name: whole}, density, pattern=pattern)[name])
                points.append(Point(name, density, float(score(model))))
        finally:
            weight.copy_(whole)
    return points
