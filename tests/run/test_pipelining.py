"""Torch's schedules behind `wire.batch`: real processes end with the weights of one device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.worlds import processes
from tightwire.algebra.errors import RecipeError, UsageError
from tightwire.recipes import interleaved, zero_bubble
from tightwire.run.join import join
from tightwire.run.together import together

STEPS, BATCH = 4, 8


def network() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(*(nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(4)))


def trained(name: str, chunks: int) -> tuple[dict[str, Any], list[float]]:
    make = {"interleaved": interleaved, "zero-bubble": zero_bubble}[name]
    model, losses = network(), []
    torch.manual_seed(6)
    recipe = make(2, chunks=chunks, microbatches=4)
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)) as wire:
        for _ in range(STEPS):
            loss = wire.batch(torch.randn(BATCH, 5), torch.randn(BATCH, 5), F.mse_loss)
            wire.step(loss)
            losses += [] if loss is None else [float(loss)]
    return {name: weight.tolist() for name, weight in model.state_dict().items()}, losses


def alone() -> tuple[dict[str, Any], list[float]]:
    model, losses = network(), []
    torch.manual_seed(6)
    sgd = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for _ in range(STEPS):
        x, y = torch.randn(BATCH, 5), torch.randn(BATCH, 5)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        losses.append(float(loss.detach()))
        sgd.step()
        sgd.zero_grad()
    return {name: weight.tolist() for name, weight in model.state_dict().items()}, losses


def assert_same(results: list[tuple[dict[str, Any], list[float]]]) -> None:
    wanted, losses = alone()
    for weights, _ in results:
        for name, weight in wanted.items():
            torch.testing.assert_close(torch.tensor(weights[name]), torch.tensor(weight), rtol=1e-5, atol=1e-6)
    assert results[0][1] == []
    assert results[1][1] == pytest.approx(losses, rel=1e-5)


@pytest.mark.processes
@pytest.mark.parametrize("name", ["interleaved", "zero-bubble"])
def test_processes_end_with_the_weights_of_one_device(name: str) -> None:
    assert_same(processes(2, trained, name, 2))


@pytest.mark.parametrize("chunks", [1, 2])
def test_so_do_workers_of_one_process(chunks: int) -> None:
    assert_same(together(2, lambda rank: trained("interleaved", chunks)))


def odd_batch() -> str:
    model = network()
    with join(interleaved(2), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        with pytest.raises(UsageError) as refused:
            wire.batch(torch.zeros(7, 5), torch.zeros(7, 5), F.mse_loss)
        return str(refused.value)


@pytest.mark.processes
def test_a_batch_that_does_not_divide_is_refused() -> None:
    assert all("a batch of 7 cannot be cut into 4 equal microbatches" in said for said in processes(2, odd_batch))


def test_microbatches_take_turns_in_groups() -> None:
    with pytest.raises(RecipeError, match="use a multiple of 2"):
        interleaved(2, microbatches=3)
