"""Weights to codes and back: zeros stay out, levels are levels, entropy is counted right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tightwire.compress.errors import CompressError
from tightwire.compress.retrain import Examples, Training, train
from tightwire.compress.share import estimate_nbytes, share, uniform
from tightwire.compress.share.kmeans import distortion
from tightwire.compress.share.qat import rounded
from tightwire.compress.share.uniform import best_step, levels, round_to


def pruned(*shape: int) -> torch.Tensor:
    weight = torch.randn(*shape)
    return weight * (torch.rand(shape) < 0.3)


@pytest.mark.parametrize("method", ["linear", "density", "random", "optimal"])
@pytest.mark.parametrize("k", [1, 3, 16, 300])
def test_zeros_take_no_part(method: str, k: int) -> None:
    weight = pruned(40, 7, 3, 3)
    shared = share(weight, k, method=method)  # type: ignore[arg-type]
    dense = shared.dense()
    assert torch.equal(dense == 0, weight == 0) and dense.shape == weight.shape
    assert len(shared.codebook_K) <= k and set(shared.code_N[shared.code_N > 0] - 1) == set(
        range(len(shared.codebook_K))
    )
    value_S = weight[weight != 0].numpy()
    assert float(((dense - weight) ** 2).sum()) == pytest.approx(
        distortion(value_S, shared.codebook_K), rel=1e-3, abs=1e-6
    )


def test_empty_and_single_layers() -> None:
    assert share(torch.zeros(4, 5), 16).nnz == 0 and share(torch.zeros(0, 5), 16).numel == 0
    assert share(torch.full((3, 3), 0.5), 16).codebook_K.tolist() == [0.5]
    with pytest.raises(CompressError, match="NaN"):
        share(torch.tensor([1.0, float("nan")]), 2)
    with pytest.raises(CompressError, match="0 centroids"):
        share(torch.ones(2), 0)


def test_a_bit_cost_is_counted_in_the_layers_own_squares() -> None:
    weight = pruned(100, 80)
    small, large = share(weight, 16, bit_cost=0.02), share(1000 * weight, 16, bit_cost=0.02)
    assert np.array_equal(small.code_N, large.code_N)
    assert estimate_nbytes(small) < estimate_nbytes(share(weight, 16)) and small.nnz < int((weight != 0).sum())


def test_the_estimate_is_the_entropy() -> None:
    weight = torch.tensor([0.0, 0.0, 1.0, -1.0] * 1000)
    assert estimate_nbytes(share(weight, 2)) == 4000 * 1.5 / 8 + 4


def test_uniform_levels_are_equidistant_and_the_step_is_the_best() -> None:
    weight = pruned(60, 50)
    shared = uniform(weight, 4)
    step = best_step(weight, 4)
    ratio = shared.codebook_K / step
    assert ratio == pytest.approx(ratio.round(), abs=1e-4) and np.abs(ratio).max() <= levels(4) + 1e-4
    error = float((shared.dense() - weight).square().sum())
    for other in (0.5, 0.8, 1.25, 2.0):
        assert error <= float((round_to(weight, other * step, 4) - weight).square().sum()) * 1.001
    assert error > float((share(weight, 15).dense() - weight).square().sum())  # k-means is nearer with as many levels


def test_training_through_levels_ends_on_them_and_helps() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    x = torch.randn(256, 8)
    examples = Examples(x, (x[:, 0] * x[:, 1] > 0).long())
    head = nn.Sequential(model, nn.ConstantPad1d((1, 0), 0.0))
    train(head, examples, Training(epochs=30, batch=32, lr=0.01))
    names = {"0.0.weight": 3, "0.2.weight": 3}
    weights = [model[0].weight, model[2].weight]
    before = [uniform(weight, 3).dense() for weight in weights]  # type: ignore[arg-type]
    kept = {name: t.clone() for name, t in head.state_dict().items()}
    with rounded(head, names):
        train(head, examples, Training(epochs=20, batch=32, lr=0.003))
    for layer in (model[0], model[2]):
        assert len(torch.unique(layer.weight.detach())) <= 7  # type: ignore[operator, union-attr]
    loss = nn.functional.cross_entropy(head(examples.x_N), examples.y_N)
    head.load_state_dict(kept)
    with torch.no_grad():
        for layer, rounded_weight in zip((model[0], model[2]), before, strict=True):
            layer.weight.copy_(rounded_weight)  # type: ignore[operator, union-attr]
    assert loss < nn.functional.cross_entropy(head(examples.x_N), examples.y_N)


def test_the_straight_gradient_stops_outside_the_range() -> None:
    layer = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.5, -1.0]]))
    with rounded(layer, {"weight": 3}):
        raw = layer.parametrizations.weight.original  # type: ignore[union-attr]
        with torch.no_grad():
            raw[0, 0] = 5.0  # type: ignore[index]
        layer(torch.tensor([[2.0, 3.0, 4.0]])).sum().backward()
        assert raw.grad.tolist() == [[0.0, 3.0, 4.0]]  # type: ignore[union-attr]
