"""A score is a number, or says that there is none."""

from __future__ import annotations

from math import nan

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import tightwire as tw
from tightwire.data import Data
from tightwire.engines.evaluate import score


class Words(nn.Module):
    """Says the same of every word: the first one by ``scale`` more than the second."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([scale, 0.0]))

    def forward(self, x_BT: Tensor) -> Tensor:
        return self.scale.expand(*x_BT.shape, 2)


def scored(data: Data, model: nn.Module) -> dict[str, float | None]:
    with tw.join(tw.recipes.sync_sgd(), model, torch.optim.SGD(model.parameters(), 0.1)) as wire:
        return score(wire, data, "cpu")


def language() -> Data:
    tokens = torch.ones(6, 4, dtype=torch.long)
    rows = TensorDataset(tokens, tokens)
    return Data("words", rows, rows, (4,), 2, task="language", columns=3)


@pytest.mark.parametrize(("scale", "perplexity"), [(0.0, 2.0), (1e6, None), (nan, None)])
def test_a_perplexity_beyond_all_numbers_is_none(scale: float, perplexity: float | None) -> None:
    found = scored(language(), Words(scale))
    assert found["perplexity"] == (None if perplexity is None else pytest.approx(perplexity))
    assert found.get("diverged", False) is (perplexity is None)


@pytest.mark.parametrize("weight", [1.0, nan, float("inf")])
def test_weights_that_are_no_numbers_have_diverged(weight: float) -> None:
    x, y = torch.eye(4), torch.arange(4)
    rows = TensorDataset(x, y)
    model = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        model.weight.copy_(weight * torch.eye(4) if weight == 1.0 else torch.full((4, 4), weight))
    found = scored(Data("own", rows, rows, (4,), 4), model)
    assert found.get("diverged", False) is (weight != 1.0) and (weight != 1.0 or found["test_accuracy"] == 1.0)
