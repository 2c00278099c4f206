"""A last batch that does not come out even: every sample counts the same, whoever has fewer of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import tightwire as tw
from tightwire.recipes import sync_sgd


def weights_after_two_epochs(workers: int, batch: int, samples: int) -> Tensor:
    random = torch.Generator().manual_seed(5)
    data = TensorDataset(torch.randn(samples, 3, generator=random), torch.randn(samples, 1, generator=random))

    def work(rank: int) -> Tensor:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with tw.join(sync_sgd(), model, optimizer) as wire:
            share = wire.shard(DataLoader(data, batch_size=batch, shuffle=True))
            for _ in range(2):
                for x_B, y_B in share:
                    wire.batch(x_B, y_B, torch.nn.functional.mse_loss)
                    wire.step()
        return model.weight.detach().clone()

    return tw.together(workers, work)[0]


@pytest.mark.parametrize("samples", [7, 11, 13])
def test_several_workers_learn_what_one_learns_from_the_same_batches(samples: int) -> None:
    torch.testing.assert_close(weights_after_two_epochs(2, 4, samples), weights_after_two_epochs(1, 8, samples))
