"""Centroid gradients are sums, equal finite differences, and leave assignments and zeros alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tightwire.compress.errors import CompressError
from tightwire.compress.prune import prunable
from tightwire.compress.retrain import Examples, Training, evaluate, train
from tightwire.compress.share import Centroids, share


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 6), nn.Tanh(), nn.Linear(6, 3))


def pruned(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for weight in prunable(model).values():
            weight.mul_(torch.rand_like(weight) < 0.6)
    return model


def test_gradients_equal_finite_differences() -> None:
    model = pruned(network()).double()
    x, y = torch.randn(5, 1, 6, 6, dtype=torch.float64), torch.randint(3, (5,))
    shared = {name: share(weight, 4) for name, weight in prunable(model).items()}
    centroids = Centroids(model, shared)

    def loss() -> torch.Tensor:
        return nn.functional.cross_entropy(model(x), y)

    loss().backward()
    centroids.gather_()
    for center_K in centroids.centers():
        assert center_K.grad is not None and center_K.dtype == torch.float64
        for k in range(len(center_K)):
            found = []
            for shift in (1e-6, -2e-6):
                with torch.no_grad():
                    center_K[k] += shift
                centroids.write_()
                found.append(float(loss().detach()))
            with torch.no_grad():
                center_K[k] += 1e-6
            assert float(center_K.grad[k]) == pytest.approx((found[0] - found[1]) / 2e-6, rel=1e-4, abs=1e-8)
    centroids.write_()


def test_gradients_are_sums_by_code() -> None:
    model = pruned(network())
    shared = {name: share(weight, 3) for name, weight in prunable(model).items()}
    centroids = Centroids(model, shared)
    nn.functional.cross_entropy(model(torch.randn(5, 1, 6, 6)), torch.randint(3, (5,))).backward()
    gradient = {name: weight.grad.flatten().clone() for name, weight in prunable(model).items()}  # type: ignore[union-attr]
    centroids.gather_()
    for (name, tensor), center_K in zip(shared.items(), centroids.centers(), strict=True):
        code_N = torch.from_numpy(tensor.code_N.astype(np.int64))
        sums = [float(gradient[name][code_N == k + 1].sum()) for k in range(len(center_K))]
        assert center_K.grad.tolist() == pytest.approx(sums, abs=1e-6)  # type: ignore[union-attr]


def test_training_keeps_assignments_and_finds_lost_accuracy_again() -> None:
    x = torch.randn(600, 1, 6, 6)
    examples = Examples(x, (x[:, 0, 2, 2] > 0).long() + (x[:, 0, 3, 3] > 0).long())
    model = network()
    train(model, examples, Training(epochs=12, batch=32, lr=0.01))
    trained = evaluate(model, examples)
    shared = {name: share(weight, 2) for name, weight in prunable(model).items()}
    centroids = Centroids(model, shared)
    coarse = evaluate(model, examples)
    train(model, examples, Training(epochs=8, batch=32, lr=0.01), constraint=centroids)
    assert coarse.loss > trained.loss and evaluate(model, examples).loss < 0.9 * coarse.loss
    for name, after in centroids.shared().items():
        weight = prunable(model)[name].detach()
        assert torch.equal(after.dense(), weight) and (np.diff(after.codebook_K) >= 0).all()
        assert len(torch.unique(weight)) <= 2 and after.nnz == shared[name].nnz
        partition = {code: frozenset(np.flatnonzero(shared[name].code_N == code)) for code in (1, 2)}
        assert set(partition.values()) == {frozenset(np.flatnonzero(after.code_N == code)) for code in (1, 2)}


def test_layers_without_weights_and_other_shapes() -> None:
    model = nn.Linear(3, 2)
    empty = Centroids(model, {"weight": share(torch.zeros(2, 3), 4)})
    model(torch.ones(1, 3)).sum().backward()
    empty.gather_()
    assert (model.weight == 0).all() and empty.centers() == [] and len(empty.parameters()) == 1
    with pytest.raises(CompressError, match="no parameter weight of shape"):
        Centroids(model, {"weight": share(torch.ones(3, 3), 4)})
