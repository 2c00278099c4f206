"""The search finds what trying every mixture finds, and holds its budget by measuring."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn

from tightwire.compress.errors import CompressError
from tightwire.compress.prune import prunable
from tightwire.compress.share import Candidate, estimate_nbytes, search, share


def squares(of: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in prunable(of).items()}


def test_the_smallest_mixture_within_the_budget() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(40, 30), nn.Linear(30, 20), nn.Linear(20, 10))
    whole = squares(model)
    matters = dict(zip(whole, (1.0, 30.0, 0.1), strict=True))

    def loss(network: nn.Module) -> float:
        return sum(matters[n] * float((w.detach() - whole[n]).square().sum()) for n, w in prunable(network).items())

    candidates = {
        name: [Candidate(str(k), s := share(weight, k), estimate_nbytes(s)) for k in (2, 4, 8, 16, 32)]
        for name, weight in whole.items()
    }
    budget = 1.0
    found = search(model, candidates, loss=loss, budget=budget)
    assert found.loss <= budget and all(torch.equal(w, whole[n]) for n, w in prunable(model).items())
    every = []
    for mixture in product(*candidates.values()):
        total = sum(
            matters[n] * float((c.shared.dense() - whole[n]).square().sum())
            for n, c in zip(whole, mixture, strict=True)
        )
        if total <= budget:
            every.append(sum(c.nbytes for c in mixture))
    assert min(every) <= found.nbytes <= 1.1 * min(every)  # the hull of mixtures, not every one
    picked = [int(found.layers[name].label) for name in whole]
    assert picked[1] > picked[0] >= picked[2]  # bits go where they matter


def test_where_nothing_is_good_enough_the_least_harmful_is_taken() -> None:
    model = nn.Linear(20, 10)
    whole = squares(model)["weight"]
    some = [Candidate(str(k), s := share(whole, k), estimate_nbytes(s)) for k in (2, 8)]

    def loss(network: nn.Module) -> float:
        return float((prunable(network)["weight"].detach() - whole).square().sum())

    assert search(model, {"weight": some}, loss=loss, budget=0.0).layers["weight"].label == "8"
    with pytest.raises(CompressError, match="no candidates for weight"):
        search(model, {"weight": []}, loss=loss, budget=0.0)
