"""Filters leave for good, with all that depends on them: shortcuts, concatenations, depthwise and grouped layers."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest
import torch
from torch import nn

from tests.compress.search.toys import Concat, depthwise, grouped
from tightwire.compress.errors import CompressError
from tightwire.compress.prune.removal import remove_filters, renew_
from tightwire.models import make

torch_pruning = pytest.importorskip("torch_pruning")


NETWORKS: dict[str, Any] = {
    "residual": lambda: make("resnet20", inputs=(3, 16, 16), classes=5, shortcut="project"),
    "padded": lambda: make("resnet20", inputs=(3, 16, 16), classes=5),
    "concat": Concat,
    "depthwise": depthwise,
    "grouped": grouped,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_half_the_operations_are_left_and_the_network_still_runs_and_learns(name: str) -> None:
    model = NETWORKS[name]()
    x = torch.randn(2, 3, 16, 16)
    before = {n: m.weight.shape for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)}
    removed = remove_filters(model.eval(), x[:1], operations=0.5)
    assert removed.operations <= 0.5 * removed.operations_before and removed.speed_bound >= 2
    assert removed.operations > 0.2 * removed.operations_before
    assert removed.parameters == sum(p.numel() for p in model.parameters()) < removed.parameters_before
    after = {n: m.weight.shape for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)}
    assert any(after[n] != before[n] for n in before)
    answer = model.train()(x)
    assert answer.shape == (2, 5)
    nn.functional.cross_entropy(answer, torch.tensor([0, 1])).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_zero_filters_leave_without_a_trace() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip
    for convolution, gone in ((model[0], 8), (model[2], 4)):
        convolution.weight.data[:gone] = 0  # type: ignore[union-attr, operator]
        convolution.bias.data[:gone] = 0  # type: ignore[union-attr, operator]
    model[2].weight.data[:, :8] = 0  # type: ignore[union-attr, operator]
    x = torch.randn(4, 3, 12, 12)
    with torch.no_grad():
        expected = model(x)
        remove_filters(model, x[:1], operations=0.75)
        assert torch.allclose(model(x), expected, atol=1e-6)


def test_protected_layers_keep_their_outputs() -> None:
    model = Concat()
    remove_filters(model, torch.randn(1, 3, 8, 8), operations=0.6, protect=("a", "b"))
    assert model.a.out_channels == 8 and model.b.out_channels == 12 and model.last.out_channels < 16
    with pytest.raises(CompressError, match="no layer 'c'"):
        remove_filters(model, torch.randn(1, 3, 8, 8), operations=0.6, protect=("c",))


def test_what_cannot_be_reached_is_said() -> None:
    model = Concat()
    with pytest.raises(CompressError, match="of the operations are left where"):
        remove_filters(model, torch.randn(1, 3, 8, 8), operations=0.01, protect=("a", "b", "last"))
    with pytest.raises(CompressError, match=r"operations=0\.0"):
        remove_filters(model, torch.randn(1, 3, 8, 8), operations=0.0)


def test_without_torch_pruning_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch_pruning")
    real = builtins.__import__
    monkeypatch.setattr(
        "tightwire.compress.prune.removal.import_module",
        lambda name: (_ for _ in ()).throw(ImportError(name)) if name == "torch_pruning" else real(name),
    )
    with pytest.raises(CompressError, match="pip install torch-pruning"):
        remove_filters(Concat(), torch.randn(1, 3, 8, 8), operations=0.5)


def test_parameters_are_anew_and_what_was_tied_stays_tied() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    model[0].bias.requires_grad_(False)
    before = dict(model.named_parameters())
    values = {name: parameter.detach().clone() for name, parameter in before.items()}
    renew_(model)
    after = dict(model.named_parameters())
    assert after.keys() == before.keys() and model[1].weight is model[0].weight
    for name, parameter in after.items():
        assert parameter is not before[name] and torch.equal(parameter, values[name])
        assert parameter.requires_grad == before[name].requires_grad


def test_no_parameter_is_left_that_was_traced() -> None:
    model = make("lenet-5", inputs=(1, 28, 28), classes=10)
    before = {id(parameter): parameter for parameter in model.parameters()}  # kept, so that no id is used again
    remove_filters(model, torch.zeros(1, 1, 28, 28), operations=0.9)
    assert not before.keys() & {id(parameter) for parameter in model.parameters()}
