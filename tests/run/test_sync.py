"""Synchronous SGD: P workers with batch b are one worker with batch P·b, and the bytes are the published ones."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.exchanges.allreduce import AllReduce, halving_doubling, multi_ring, ring, tree
from tightwire.recipes import sync_sgd
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.telemetry.ledger import Ledger

WORKERS, BATCH, STEPS = 4, 3, 50


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 4), nn.Tanh(), nn.Linear(4, 4))


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(STEPS, WORKERS * BATCH, 8, generator=generator)
    return x, torch.sin(x.sum(-1, keepdim=True)).expand(-1, -1, 4)


def large_batch() -> dict[str, Tensor]:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in zip(*data(), strict=True):
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: weight.detach() for name, weight in model.named_parameters()}


def one_worker(exchange: AllReduce, rank: int) -> tuple[dict[str, Tensor], Ledger]:
    model = network()
    with join(sync_sgd(exchange), model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)) as wire:
        for x, y in zip(*data(), strict=True):
            F.mse_loss(model(x.tensor_split(WORKERS)[rank]), y.tensor_split(WORKERS)[rank]).backward()
            wire.step()
    return {name: weight.detach() for name, weight in model.named_parameters()}, wire.ledger


@pytest.mark.parametrize("exchange", [ring(), tree(), halving_doubling(), multi_ring()], ids=lambda e: e.graph)
def test_many_workers_are_one_with_a_large_batch(exchange: AllReduce) -> None:
    wanted = large_batch()
    for weights, _ in together(WORKERS, lambda rank: one_worker(exchange, rank)):
        for name, weight in weights.items():
            torch.testing.assert_close(weight, wanted[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize("exchange", [ring(), halving_doubling(), multi_ring()], ids=lambda e: e.graph)
def test_counted_bytes_are_the_published_ones(exchange: AllReduce) -> None:
    parameters = sum(p.numel() for p in network().parameters())
    assert parameters % WORKERS == 0
    wanted = 2 * (WORKERS - 1) * 4 * parameters // WORKERS * STEPS
    for _, ledger in together(WORKERS, lambda rank: one_worker(exchange, rank)):
        assert ledger.tx_bytes == ledger.rx_bytes == wanted
        assert {row["known"] for row in ledger.rows()} == {"counted"}
        assert ledger.payload_ratio == 1.0
