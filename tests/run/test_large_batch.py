"""Large batches: linear scaling with warm-up, and layer-wise adaptive rates."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tightwire.recipes import large_minibatch, lars
from tightwire.run.join import join
from tightwire.run.together import together


def test_the_rate_grows_a_little_in_each_step_and_schedulers_keep_theirs() -> None:
    def one(rank: int) -> tuple[list[float], list[float]]:
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        moves, rates = [], []
        data = TensorDataset(torch.ones(16, 1))
        with join(large_minibatch(warmup_epochs=2.0), model, optimizer) as wire:
            batches = wire.shard(DataLoader(data, batch_size=1))
            for _ in range(3):
                for (x,) in batches:
                    before = float(model.weight.detach())
                    model(x).sum().backward()
                    wire.step()
                    moves.append(before - float(model.weight.detach()))
                    rates.append(optimizer.param_groups[0]["lr"])
        return moves, rates

    moves, rates = together(4, one)[0]
    factors = [1 + 3 * min(1.0, (step + 1) / 8) for step in range(12)]
    assert moves == pytest.approx([0.5 * factor for factor in factors])
    assert rates == [0.5] * 12


def momentum_forms(correct: bool) -> tuple[list[float], list[float]]:
    """u ← m·u + g, w ← w − η·u beside v ← m·v + η·g, w ← w − v, over a schedule that jumps."""
    reference, folded = 0.0, 0.0
    u = v = 0.0
    rates = [0.1] * 5 + [1.0] * 5
    reference_path, folded_path = [], []
    for step, rate in enumerate(rates):
        gradient = 1.0 + 0.1 * step
        u = 0.9 * u + gradient
        reference -= rate * u
        correction = rate / rates[step - 1] if correct and step else 1.0
        v = 0.9 * correction * v + rate * gradient
        folded -= v
        reference_path.append(reference)
        folded_path.append(folded)
    return reference_path, folded_path


def test_momentum_correction_is_what_torch_already_does() -> None:
    reference, corrected = momentum_forms(correct=True)
    assert corrected == pytest.approx(reference)
    assert momentum_forms(correct=False)[1] != pytest.approx(reference)
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    path = []
    for step in range(10):
        optimizer.param_groups[0]["lr"] = 0.1 if step < 5 else 1.0
        weight.grad = torch.tensor([1.0 + 0.1 * step])
        optimizer.step()
        path.append(float(weight.detach()))
    assert path == pytest.approx(reference, rel=1e-5)


def lars_step(loss_scale: float, decay: float) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Linear(6, 5)
    before = model.weight.detach().clone()
    with join(lars(0.001), model, torch.optim.SGD(model.parameters(), lr=2.0, weight_decay=decay)) as wire:
        (loss_scale * model(torch.ones(3, 6)).square().sum()).backward()
        wire.step()
    return before, model.weight.detach() - before


def test_the_size_of_the_loss_does_not_matter() -> None:
    _, small = lars_step(1.0, decay=0.0)
    before, large = lars_step(1000.0, decay=0.0)
    torch.testing.assert_close(small, large, rtol=1e-4, atol=1e-8)
    assert float(small.norm()) == pytest.approx(2.0 * 0.001 * float(before.norm()), rel=1e-4)


def test_weight_decay_is_inside_the_trust_ratio() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 5)
    model(torch.ones(3, 6)).square().sum().backward()
    weight, gradient = model.weight.detach(), model.weight.grad
    assert gradient is not None
    ratio = 0.001 * weight.norm() / (gradient.norm() + 0.3 * weight.norm())
    _, moved = lars_step(1.0, decay=0.3)
    torch.testing.assert_close(moved, -2.0 * ratio * (gradient + 0.3 * weight), rtol=1e-4, atol=1e-7)


def test_zero_weights_are_not_frozen_for_ever() -> None:
    model = nn.Linear(3, 2, bias=False)
    nn.init.zeros_(model.weight)
    with join(lars(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        model(torch.ones(1, 3)).sum().backward()
        wire.step()
    assert bool((model.weight.detach() != 0).all())
