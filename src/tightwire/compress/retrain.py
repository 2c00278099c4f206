"""Training, retraining and evaluation for compression: one plain loop over tensors that lie on the device.

    batch of indices → forward → loss → backward → the constraint's say → optimizer → the constraint's say

A constraint keeps what compression has decided (masks, shared weights) while an optimizer of torch works. Everything is
drawn from one seed, so a stage that was killed and started anew ends with the same weights on the same machine.
Soft targets: Hinton, Vinyals, Dean: Distilling the Knowledge in a Neural Network. arXiv 1503.02531.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import cos, pi
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.compress.augment import Augment
from tightwire.compress.errors import CompressError

Told: TypeAlias = Callable[[int, int], None]
_EVALUATED = 1000  # samples at a time


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and labels, on the device that trains. N samples; ``augment`` changes each batch of inputs it is given."""

    x_N: Tensor  # noqa: N815
    y_N: Tensor  # noqa: N815
    augment: Augment | None = None

    def __len__(self) -> int:
        return len(self.y_N)

    def cut(self, every: int) -> tuple[Examples, Examples]:
        """All samples but every so-manieth, and those: a part to train on and a part to decide by."""
        held = torch.arange(len(self)) % every == every - 1
        rest, part = (~held).to(self.y_N.device), held.to(self.y_N.device)
        return Examples(self.x_N[rest], self.y_N[rest], self.augment), Examples(self.x_N[part], self.y_N[part])


@dataclass(frozen=True)
class Training:
    """How to train. ``soft`` is the share of a teacher's answers in the targets."""

    epochs: float = 10.0
    batch: int = 128
    optimizer: Literal["adamw", "sgd"] = "adamw"
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    rate: Literal["cosine", "constant"] = "cosine"
    soft: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = 0


class Constraint(Protocol):
    """What compression holds on to while an optimizer works."""

    def parameters(self) -> list[nn.Parameter]:
        """What the optimizer trains."""

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer is made; training begins."""

    def before_step(self, passed: float) -> None:
        """Gradients are there, not applied; ``passed`` is the part of training that is over."""

    def after_step(self) -> None:
        """The optimizer has moved its parameters."""


@dataclass(frozen=True, eq=False)
class Free:
    """No constraint: plain training of a model."""

    model: nn.Module

    def parameters(self) -> list[nn.Parameter]:
        """All of the model's."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Nothing to do."""

    def before_step(self, passed: float) -> None:
        """Nothing to hold."""

    def after_step(self) -> None:
        """Nothing to restore."""


def train(
    model: nn.Module,
    examples: Examples,
    settings: Training,
    *,
    constraint: Constraint | None = None,
    teacher: nn.Module | None = None,
    told: Told | None = None,
) -> None:
    """Train ``model`` in place; ``told`` hears of every step (steps taken, steps in all)."""
    held = constraint or Free(model)
    optimizer = _optimizer(held.parameters(), settings)
    held.begin(optimizer)
    steps = max(1, round(settings.epochs * (len(examples) // settings.batch or 1)))
    device = examples.x_N.device
    random = torch.Generator(device).manual_seed(settings.seed)
    was_training = model.training
    model.train()
    for step, index_B in enumerate(_indices(len(examples), settings, steps)):
        _set_rate(optimizer, settings, step / steps)
        place_B = index_B.to(device)
        x_B, y_B = examples.x_N[place_B], examples.y_N[place_B]
        if examples.augment is not None:
            x_B = examples.augment(x_B, random)
        with _cast(device, settings):
            loss = _loss(model, x_B, y_B, teacher, settings.soft)
        optimizer.zero_grad(set_to_none=True)
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        held.before_step(step / steps)
        optimizer.step()
        held.after_step()
        if told is not None:
            told(step + 1, steps)
    model.train(was_training)


def _optimizer(parameters: list[nn.Parameter], settings: Training) -> torch.optim.Optimizer:
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, settings.lr, settings.momentum, weight_decay=settings.weight_decay, nesterov=True, fused=True
        )
    raise CompressError(f"optimizer={settings.optimizer!r} is not known; choose adamw or sgd")


def _set_rate(optimizer: torch.optim.Optimizer, settings: Training, passed: float) -> None:
    factor = 0.5 * (1 + cos(pi * passed)) if settings.rate == "cosine" else 1.0
    for group in optimizer.param_groups:
        group["lr"] = settings.lr * factor


def _indices(count: int, settings: Training, steps: int) -> Iterator[Tensor]:
    """Batches of a new order every epoch; what does not fill a batch waits for another epoch's order."""
    order = torch.Generator().manual_seed(settings.seed)
    batch = min(settings.batch, count)
    taken = 0
    while taken < steps:
        permuted = torch.randperm(count, generator=order)
        for first in range(0, count - batch + 1, batch):
            yield permuted[first : first + batch]
            taken += 1
            if taken == steps:
                return


def _loss(model: nn.Module, x_B: Tensor, y_B: Tensor, teacher: nn.Module | None, soft: float) -> Tensor:
    answer = model(x_B).float()
    hard = F.cross_entropy(answer, y_B)
    if teacher is None or soft == 0:
        return hard
    with torch.no_grad():
        target = teacher(x_B).float().softmax(-1)
    return (1 - soft) * hard + soft * F.cross_entropy(answer, target)


def _cast(device: torch.device, settings: Training) -> AbstractContextManager[object]:
    return nullcontext() if settings.precision == "float32" else torch.autocast(device.type, torch.bfloat16)


@dataclass(frozen=True)
class Score:
    """How good a model is on some examples."""

    accuracy: float
    loss: float


@torch.no_grad()
def evaluate(model: nn.Module, examples: Examples) -> Score:
    """Accuracy and mean loss."""
    was_training = model.training
    model.eval()
    right = loss = 0.0
    for x_B, y_B in zip(examples.x_N.split(_EVALUATED), examples.y_N.split(_EVALUATED), strict=True):
        answer = model(x_B).float()
        right += float((answer.argmax(-1) == y_B).sum())
        loss += float(F.cross_entropy(answer, y_B, reduction="sum"))
    model.train(was_training)
    return Score(right / len(examples), loss / len(examples))
