"""Small training runs on fixed problems, for laws that compare whole trajectories."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.recipes.entry import Case
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.together import together

GLOBAL_BATCH = 12
RATE = 0.05


def network(problem: str) -> nn.Sequential:
    """The network of a problem, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        if problem == "narrow":
            return nn.Sequential(nn.Linear(1, 6, bias=False), nn.Tanh())
        return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 4))


def batches(problem: str, steps: int) -> list[tuple[Tensor, Tensor]]:
    """The global batches of a problem."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        inputs = 1 if problem == "narrow" else 6
        x = torch.randn(steps, GLOBAL_BATCH, inputs)
        y = torch.sin(3 * x.sum(-1, keepdim=True)).expand(-1, -1, 6 if problem == "narrow" else 4)
        return list(zip(x, y, strict=True))


def train(case: Case, settings: Settings | None = None) -> dict[str, Tensor]:
    """Train and return the answer's weights: the same on all ranks, or an AssertionError."""
    if case.recipe is None:
        return _alone(case)
    answers = together(case.workers, lambda rank: _one(case, rank, settings))
    for rank, answer in enumerate(answers):
        for name, weight in answer.items():
            assert torch.equal(weight, answers[0][name]), f"ranks 0 and {rank} disagree about {name}"
    return answers[0]


def _optimizer(case: Case, model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=RATE * case.rate, momentum=case.momentum)


def _alone(case: Case) -> dict[str, Tensor]:
    model = network(case.problem)
    optimizer = _optimizer(case, model)
    for x, y in batches(case.problem, case.steps):
        (case.loss * F.mse_loss(model(x), y)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: weight.detach() for name, weight in model.named_parameters()}


STEPS_PER_EPOCH = 10  # the laws' problems have no data set, and some recipes change with epochs


def _one(case: Case, rank: int, settings: Settings | None) -> dict[str, Tensor]:
    model = network(case.problem)
    assert case.recipe is not None
    with join(case.recipe, model, _optimizer(case, model), settings=settings) as wire:
        mine = whole if wire.pipeline is not None else part(rank, case.workers)
        for step, (x, y) in enumerate(batches(case.problem, case.steps)):
            wire.epochs = step / STEPS_PER_EPOCH
            wire.batch(mine(x), mine(y), lambda out, target: case.loss * F.mse_loss(out, target))
            wire.step()
    return {name: weight.detach() for name, weight in model.named_parameters()}


def whole(batch: Tensor) -> Tensor:
    """All of a batch."""
    return batch


def part(rank: int, workers: int) -> Callable[[Tensor], Tensor]:
    """A worker's part of a global batch."""
    return lambda batch: batch.tensor_split(workers)[rank]


def distance(left: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    """The largest difference between two sets of weights, relative to the largest weight."""
    assert left.keys() == right.keys()
    scale = max(float(weight.abs().max()) for weight in right.values())
    return max(float((left[name] - right[name]).abs().max()) for name in left) / scale
