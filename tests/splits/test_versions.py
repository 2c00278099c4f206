"""Which weights a backward pass sees when they have moved since the forward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tightwire.splits.versions import keep_versions


def two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.ReLU(), nn.BatchNorm2d(2), nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 2)
    )


def curved() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.PReLU(), nn.LayerNorm(4), nn.Linear(4, 2, bias=False))


CASES: list[tuple[Callable[[], nn.Sequential], tuple[int, ...]]] = [
    (two_layers, (5, 3)),
    (convolutions, (5, 1, 3, 3)),
    (curved, (5, 3)),
]


def move(model: nn.Module) -> None:
    """An update in place, as an optimizer makes it."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight))


def gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    named = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    assert x.grad is not None
    return {**named, "x": x.grad.clone()}


def test_autograd_alone_refuses_to_go_back_through_weights_that_moved() -> None:
    model, x = two_layers(), torch.randn(5, 3)
    loss = model(x).sum()
    move(model)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_current_weights_meet_old_activations() -> None:
    first, last = nn.Linear(3, 4), nn.Linear(4, 2)
    model, x = nn.Sequential(first, nn.Tanh(), last), torch.randn(5, 3, requires_grad=True)
    with keep_versions(model, "current"):
        out = model(x)
    hidden = torch.tanh(first(x)).detach()
    old = last.weight.detach().clone()
    move(model)
    error = torch.randn(5, 2)
    out.backward(error)
    back = error @ last.weight.detach() * (1 - hidden**2)
    wanted = {
        "0.weight": back.T @ x.detach(),
        "0.bias": back.sum(0),
        "2.weight": error.T @ hidden,
        "2.bias": error.sum(0),
        "x": back @ first.weight.detach(),
    }
    got = gradients(model, x)
    assert got.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(got[name], gradient.detach())
    with_old = (error @ old * (1 - hidden**2)).T @ x.detach()
    assert not torch.allclose(got["0.weight"], with_old, atol=1e-3)


@pytest.mark.parametrize(("make", "shape"), CASES)
def test_stashed_weights_are_those_of_the_forward_pass(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    model = make()
    twin, error = copy.deepcopy(model), torch.randn(5, 2)
    x = torch.randn(shape, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    with keep_versions(model, "stashed"):
        out = model(x)
    for _ in range(3):
        move(model)
    out.backward(error)
    twin(y).backward(error)
    got, wanted = gradients(model, x), gradients(twin, y)
    assert got.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(got[name], wanted[name])


@pytest.mark.parametrize("versions", ["current", "stashed"])
@pytest.mark.parametrize(("make", "shape"), CASES)
def test_without_an_update_between_both_are_plain_autograd(
    make: Callable[[], nn.Module], shape: tuple[int, ...], versions: str
) -> None:
    model = make()
    twin, error = copy.deepcopy(model), torch.randn(5, 2)
    x = torch.randn(shape, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    with keep_versions(model, versions):  # type: ignore[arg-type]
        out = model(x)
    out.backward(error)
    twin(y).backward(error)
    wanted = gradients(twin, y)
    for name, gradient in gradients(model, x).items():
        assert torch.equal(gradient, wanted[name]), name


def test_several_minibatches_in_flight_keep_a_version_each() -> None:
    model = nn.Linear(2, 1, bias=False)
    flights, weights = [], []
    for _ in range(3):
        x = torch.randn(4, 2, requires_grad=True)
        with keep_versions(model, "stashed"):
            out = model(x)
        flights.append((x, out))
        weights.append(model.weight.detach().clone())
        move(model)
    for (x, out), weight in zip(flights, weights, strict=True):
        out.sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, weight.expand(4, 2))
