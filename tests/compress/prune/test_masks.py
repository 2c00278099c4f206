"""Pruned weights stay exactly zero under every optimizer, whatever it remembered before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, NAdam, Optimizer, RMSprop

from tightwire.compress.errors import CompressError
from tightwire.compress.prune import Gradual, Target, by_density, cubic, density_of, hold, in_rounds, one_shot, prunable
from tightwire.compress.retrain import Examples, Training, train

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], Optimizer]] = {
    "sgd": lambda p: SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda p: SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda p: Adam(p, 0.01, weight_decay=0.1),
    "amsgrad": lambda p: Adam(p, 0.01, weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: AdamW(p, 0.01, weight_decay=0.1),
    "nadam": lambda p: NAdam(p, 0.01, weight_decay=0.1),
    "rmsprop": lambda p: RMSprop(p, 0.01, momentum=0.9, weight_decay=0.1),
    "adagrad": lambda p: Adagrad(p, 0.01, weight_decay=0.1),
}


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 20), nn.ReLU(), nn.Linear(20, 3))


def steps(model: nn.Module, optimizer: Optimizer, count: int) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(16, 1, 8, 8)), torch.randint(3, (16,))).backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_masks_hold_against_gradients_momentum_and_decay(name: str) -> None:
    model = network()
    optimizer = OPTIMIZERS[name](list(model.parameters()))
    steps(model, optimizer, 3)  # moments that would move pruned weights on
    masks = by_density(dict(prunable(model)), 0.3)
    before = {n: w.detach().clone() for n, w in prunable(model).items()}
    with hold(model, masks, optimizer):
        steps(model, optimizer, 5)
        for weight_name, weight in prunable(model).items():
            gone = ~masks[weight_name]
            assert (weight[gone] == 0).all()
            assert (weight[~gone] != before[weight_name][~gone]).any()
            for kept in optimizer.state[weight].values():
                if isinstance(kept, torch.Tensor) and kept.shape == weight.shape:
                    assert (kept[gone] == 0).all()
    steps(model, optimizer, 1)  # outside, nothing is held any more
    assert any((weight[~masks[n]] != 0).any() for n, weight in prunable(model).items())


def test_masks_of_another_model_are_refused() -> None:
    model = network()
    optimizer = SGD(model.parameters(), 0.1)
    with pytest.raises(CompressError, match="no parameter 'x'"), hold(model, {"x": torch.ones(1)}, optimizer):
        pass
    with pytest.raises(CompressError, match="has shape"), hold(model, {"0.weight": torch.ones(1)}, optimizer):
        pass


@pytest.mark.parametrize("schedule", [cubic(), one_shot(), in_rounds(3)])
def test_gradual_pruning_ends_at_its_density_and_only_ever_prunes(schedule: object) -> None:
    model = network()
    examples = Examples(torch.randn(320, 1, 8, 8), torch.randint(3, (320,)))
    held = Gradual(model, Target(0.1, "network", schedule), until=0.5, every=2)  # type: ignore[arg-type]
    seen = []

    class Watched:
        parameters, begin, before_step, after_step = held.parameters, held.begin, held.before_step, held.after_step
        state, restore = held.state, held.restore

        def decide(self, passed: float) -> None:
            held.decide(passed)
            seen.append({name: mask.clone() for name, mask in held.masks.items()})

    train(model, examples, Training(epochs=2, batch=16, lr=0.01), constraint=Watched())
    assert len(seen) == 40
    for before, after in pairwise(seen):
        assert all(not (after[name] & ~before[name]).any() for name in after)
    total = sum(mask.numel() for mask in seen[-1].values())
    assert density_of(seen[-1]) == round(0.1 * total) / total == density_of(seen[21])
    assert all(torch.equal(weight != 0, seen[-1][name]) for name, weight in prunable(model).items())


def test_schedules_begin_and_end_where_they_should() -> None:
    for schedule in (cubic(), one_shot(), in_rounds(5)):
        passed = [schedule.density(0.04, at / 100) for at in range(101)]
        assert passed == sorted(passed, reverse=True) and passed[-1] == pytest.approx(0.04)
    assert cubic().density(0.04, 0.0) == 1 and one_shot().density(0.04, 0.0) == 0.04
    assert in_rounds(5).density(0.04, 0.0) == pytest.approx(0.04 ** (1 / 5))


def test_quality_grows_along_the_schedule() -> None:
    weights = {"w": torch.randn(100, 100)}
    target = Target(1.0, "quality", cubic())
    kept = [int(target.masks(weights, passed)["w"].sum()) for passed in (0.0, 0.3, 0.6, 1.0)]
    assert kept == sorted(kept, reverse=True) and kept[0] == 10_000
    assert kept[-1] == int((weights["w"].abs() > weights["w"].std(correction=0)).sum())
