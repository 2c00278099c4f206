"""What is done about old gradients does what its equations say."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tightwire.algebra.errors import JoinError
from tightwire.algebra.split import Compensation
from tightwire.recipes import layerwise
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.splits.ageing import discount

STEPS, RATE, MOMENTUM = 10, 0.05, 0.8


def by_hand(compensation: Compensation) -> tuple[float, float]:
    """Two stages of one weight each, loss (w1·w0)²/2; pipelined back-propagation with momentum."""
    w0, w1, v0, v1 = 0.5, 2.0, 0.0, 0.0
    activations: list[float] = []
    errors: dict[int, float] = {}
    factor = discount(2) if compensation == "discount" else 1.0
    for tick in range(STEPS + 2):
        if tick < STEPS:  # stage 0 forward: two updates of its weight will follow before this minibatch is back
            activations.append(w0 - 2 * RATE * v0 if compensation in ("predict", "both") else w0)
        step1 = None
        if 0 <= tick - 1 < STEPS:
            out = w1 * activations[tick - 1]
            errors[tick - 1], step1 = out * w1, out * activations[tick - 1]
        if 0 <= tick - 2 < STEPS:
            gradient = factor * errors[tick - 2]
            v0 = MOMENTUM * v0 + gradient
            kept = MOMENTUM**2 if compensation in ("spike", "both") else 1.0
            w0 -= RATE * (kept * v0 + (1 - kept) / (1 - MOMENTUM) * gradient)
        if step1 is not None:
            v1 = MOMENTUM * v1 + step1
            w1 -= RATE * v1
    return w0, w1


@pytest.mark.parametrize("compensation", ["none", "discount", "predict", "spike", "both"])
def test_two_stages_do_what_the_equations_say(compensation: Compensation) -> None:
    def one(rank: int) -> tuple[float, float]:
        model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
        with torch.no_grad():
            model[0].weight.fill_(0.5)
            model[1].weight.fill_(2.0)
        sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
        with join(layerwise(2, compensation=compensation), model, sgd) as wire:
            for _ in range(STEPS):
                wire.batch(torch.ones(1, 1), None, lambda out, _: out.square().sum() / 2)
                wire.step()
        return float(model[0].weight.detach()), float(model[1].weight.detach())

    for got in together(2, one):
        assert got == pytest.approx(by_hand(compensation), rel=1e-5)


def test_they_differ() -> None:
    kinds: tuple[Compensation, ...] = ("none", "discount", "predict", "spike", "both")
    assert len({by_hand(kind) for kind in kinds}) == len(kinds)


def test_a_foretold_weight_is_never_kept() -> None:
    """After the forward pass the weight is what it was, and the backward pass sees the weight of then."""

    def one(rank: int) -> list[float]:
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        seen = []
        with join(layerwise(2, compensation="predict"), model, sgd) as wire:
            for _ in range(6):
                before = model[0].weight.detach().clone()
                wire.batch(torch.ones(2, 3), torch.zeros(2, 3), nn.functional.mse_loss)
                seen.append(float((model[0].weight.detach() - before).abs().max()))
                wire.step()
        return seen

    assert together(2, one)[0] == [0.0] * 6


def test_only_sgd_is_compensated() -> None:
    def one(rank: int) -> None:
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        join(layerwise(2, compensation="discount"), model, torch.optim.Adam(model.parameters()))

    with pytest.raises(JoinError, match="made for the steps of SGD, and the optimizer is Adam"):
        together(2, one)
