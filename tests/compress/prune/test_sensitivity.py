"""The scan prunes one layer at a time and leaves the network as it was."""

from __future__ import annotations

import torch
from torch import nn

from tightwire.compress.prune import prunable, scan


def test_every_layer_alone_at_every_density() -> None:
    model = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 4))
    before = {name: t.clone() for name, t in model.state_dict().items()}
    seen = []

    def score(network: nn.Module) -> float:
        kept = [int((weight != 0).sum()) for weight in prunable(network).values()]
        seen.append(kept)
        return float(sum(kept))

    points = scan(model, score, densities=(1.0, 0.5, 0.25))
    assert seen == [[80, 32], [40, 32], [20, 32], [80, 32], [80, 16], [80, 8]]
    assert [(p.layer, p.density, p.score) for p in points][1] == ("0.weight", 0.5, 72.0)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
