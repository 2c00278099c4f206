"""A small training on a GPU, by workers of this process."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tightwire.algebra.recipe import AnyRecipe
from tightwire.run.join import join
from tightwire.run.together import together


def weights_after(
    steps: int, recipe: AnyRecipe, *, workers: int, inputs: int, hidden: int, outputs: int
) -> list[Tensor]:
    """The first worker's weights; each worker has batches of its own, the same in every training."""

    def one(rank: int) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)).cuda()
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.01)) as wire:
            for step in range(steps):
                x = torch.randn(8, inputs, generator=torch.Generator().manual_seed(10 * step + rank)).cuda()
                model(x).square().mean().backward()
                wire.step()
        return [p.detach().cpu() for p in model.parameters()]

    return together(workers, one)[0]
