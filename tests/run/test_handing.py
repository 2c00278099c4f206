"""Gradients that are mostly zero reach the optimizer as sparse tensors, where that changes nothing but the time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import tightwire as tw
from tightwire.recipes import dgc, sync_sgd
from tightwire.run.handing import takes_sparse
from tightwire.run.together import together

pytest.importorskip("numba")


def train(optimizer_of: Any, *, spy: list[torch.layout] | None = None, recipe: Any = None) -> dict[str, torch.Tensor]:
    def work(rank: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 5))
        optimizer = optimizer_of(model.parameters())
        take_step = optimizer.step

        def looking(*args: Any, **settings: Any) -> Any:
            if spy is not None and rank == 0:
                spy.extend(p.grad.layout for p in model.parameters() if p.grad is not None)
            return take_step(*args, **settings)

        optimizer.step = looking
        with tw.join(recipe or dgc(0.01), model, optimizer) as wire:
            for step in range(4):
                x = torch.randn(8, 300, generator=torch.Generator().manual_seed(10 * step + rank))
                model(x).square().mean().backward()
                wire.step()
        return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    return together(3, work)[0]


def test_plain_sgd_takes_few_gradients_and_gets_where_many_lead() -> None:
    layouts: list[torch.layout] = []
    few = train(lambda p: torch.optim.SGD(p, lr=0.1), spy=layouts)
    assert layouts[:4] == [torch.sparse_coo, torch.strided, torch.sparse_coo, torch.strided]  # weight, bias, …
    full_layouts: list[torch.layout] = []
    full = train(lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=1e-30), spy=full_layouts)
    assert set(full_layouts) == {torch.strided}
    for name in full:
        torch.testing.assert_close(few[name], full[name], rtol=1e-6, atol=1e-7)


def test_a_step_that_is_mostly_zero_leaves_most_weights_alone() -> None:
    torch.manual_seed(0)
    before = nn.Linear(300, 300).weight.detach()
    after = train(lambda p: torch.optim.SGD(p, lr=0.1))["0.weight"]
    assert 0.01 < float((before != after).float().mean()) < 0.13  # 4 steps of 3 workers at 0.01, at most


@pytest.mark.parametrize(
    "settings", [{"momentum": 0.9}, {"weight_decay": 0.1}, {"fused": True}], ids=lambda s: next(iter(s))
)
def test_an_optimizer_that_moves_everything_is_given_everything(settings: dict[str, Any]) -> None:
    weights = [nn.Parameter(torch.zeros(3))]
    assert takes_sparse(torch.optim.SGD(weights, lr=0.1))
    assert not takes_sparse(torch.optim.SGD(weights, lr=0.1, **settings))
    assert not takes_sparse(torch.optim.Adam(weights))


def test_an_optimizer_whose_steps_are_watched_is_given_everything() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(3))], lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: None)
    assert not takes_sparse(optimizer)


def test_dense_recipes_hand_out_views() -> None:
    layouts: list[torch.layout] = []
    train(lambda p: torch.optim.SGD(p, lr=0.1), spy=layouts, recipe=sync_sgd())
    assert set(layouts) == {torch.strided}
