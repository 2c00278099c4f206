"""Replicated stages: several pipelines on other batches train as one on all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.worlds import processes
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import Recipe
from tightwire.recipes import gpipe, layerwise, one_forward_one_backward, pipedream
from tightwire.run.join import join
from tightwire.run.together import together

STEPS, BATCH = 5, 12


def network() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(*(nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(2)), nn.Linear(5, 4))


def trained(recipe: Recipe, replica: int, replicas: int) -> dict[str, Tensor]:
    model = network()
    torch.manual_seed(6)
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)) as wire:
        for _ in range(STEPS):
            x, y = torch.randn(BATCH, 5), torch.randint(4, (BATCH,))
            wire.batch(x.tensor_split(replicas)[replica], y.tensor_split(replicas)[replica], F.cross_entropy)
            wire.step()
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


@pytest.mark.parametrize(
    ("make", "each"),
    [
        (lambda replicas: gpipe(2, microbatches=3, replicas=replicas), 2),
        (lambda replicas: one_forward_one_backward(3, microbatches=2, replicas=replicas), 3),
        (lambda replicas: pipedream(2, replicas=replicas), 2),
        (lambda replicas: layerwise(3, replicas=replicas), 3),
        (lambda replicas: layerwise(2, wide=3, replicas=replicas), 3),
    ],
    ids=["gpipe", "1f1b", "pipedream", "layerwise", "wide"],
)
def test_two_pipelines_train_as_one_on_all_batches(make: Callable[[int], Recipe], each: int) -> None:
    wanted = together(each, lambda rank: trained(make(1), 0, 1))[0]
    for weights in together(2 * each, lambda rank: trained(make(2), rank // each, 2)):
        for name, weight in wanted.items():
            torch.testing.assert_close(weights[name], weight, rtol=1e-5, atol=1e-6)


def test_replicas_are_given_other_batches() -> None:
    def one(rank: int) -> list[float]:
        model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        loader = DataLoader(TensorDataset(torch.arange(8.0)[:, None]), batch_size=2)
        with join(layerwise(2, replicas=2), model, torch.optim.SGD(model.parameters(), lr=0.0)) as wire:
            return sorted(float(value) for (batch,) in wire.shard(loader) for value in batch)

    first, twin, other, others_twin = together(4, one)
    assert first == twin and other == others_twin
    assert sorted(first + other) == [float(k) for k in range(8)]


def in_a_process() -> Any:
    rank = int(os.environ["RANK"])
    weights = trained(one_forward_one_backward(2, microbatches=2, replicas=2), rank // 2, 2)
    return {name: weight.tolist() for name, weight in weights.items()}


@pytest.mark.processes
def test_real_processes_do_the_same() -> None:
    wanted = together(2, lambda rank: trained(one_forward_one_backward(2, microbatches=2), 0, 1))[0]
    for weights in processes(4, in_a_process):
        for name, weight in wanted.items():
            torch.testing.assert_close(torch.tensor(weights[name]), weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("stages", "replicas"), [(1, 2), (2, 0)])
def test_replicas_of_nothing_are_refused(stages: int, replicas: int) -> None:
    with pytest.raises(RecipeError, match=f"stages={stages}, replicas={replicas}"):
        layerwise(stages, replicas=replicas)
