"""Training, retraining and evaluation for compression: one plain loop over tensors that lie on the device.

    the constraint decides → batch of places → forward → loss → backward → it masks → optimizer → it writes back

A constraint keeps what compression has decided (masks, shared weights) while an optimizer of torch works. Everything is
drawn from one seed, and an unfinished training can be kept in a file and gone on with, so a stage that was killed ends
with the same weights on the same machine. Images lie channel by channel within a pixel, in which convolutions are
faster, and on a GPU a step is recorded and replayed (`compress.replay`): it is the same step.
Soft targets: (1 − s)·loss + s·T²·loss against softmax(teacher / T). Hinton, Vinyals, Dean: Distilling the Knowledge in
a Neural Network. arXiv 1503.02531.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.compress.errors import CompressError
from tightwire.compress.replay import Replay
from tightwire.compress.unfinished import Kept, Unfinished

Told: TypeAlias = Callable[[int, int], None]
Augment: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
_EVALUATED = 1000  # samples at a time
_LOOKED_EVERY = 200  # steps; looking waits for a GPU


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
    """How to train. ``soft`` is the share of a teacher's answers in the targets, ``temperature`` evens them out.

    ``compiled``: by torch.compile; it takes half a minute before the first step, and passes over memory less often.
    """

    epochs: float = 10.0
    batch: int = 128
    optimizer: Literal["adamw", "sgd"] = "adamw"
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    rate: Literal["cosine", "constant"] = "cosine"
    soft: float = 0.0
    temperature: float = 1.0
    precision: Literal["float32", "bfloat16"] = "float32"
    compiled: bool = False
    seed: int = 0


class Constraint(Kept, Protocol):
    """What compression holds on to while an optimizer works. Only `decide` may make tensors of new sizes or places."""

    def parameters(self) -> list[nn.Parameter]:
        """What the optimizer trains."""

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer is made; training begins."""

    def decide(self, passed: float) -> None:
        """Between two steps: change what is held; ``passed`` is the part of training that is over."""

    def before_step(self) -> None:
        """Gradients are there, not applied."""

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

    def decide(self, passed: float) -> None:
        """Nothing to decide."""

    def before_step(self) -> None:
        """Nothing to hold."""

    def after_step(self) -> None:
        """Nothing to restore."""

    def state(self) -> dict[str, Tensor]:
        """Nothing to remember."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Nothing was remembered."""


@dataclass(eq=False)
class _Step:
    """One step of training; it waits for nothing on the host, so that it can be recorded."""

    model: nn.Module
    examples: Examples
    settings: Training
    held: Constraint
    teacher: nn.Module | None
    optimizer: torch.optim.Optimizer
    random: torch.Generator

    def __call__(self, place_B: Tensor) -> None:
        x_B, y_B = self.examples.x_N[place_B], self.examples.y_N[place_B]
        if self.examples.augment is not None:
            x_B = self.examples.augment(x_B, self.random)
        for parameter in (*self.model.parameters(), *self.held.parameters()):
            parameter.grad = None
        with _cast(x_B.device, self.settings):
            compute = torch.compile(_loss) if self.settings.compiled else _loss
            loss = compute(self.model, _laid(x_B), y_B, self.teacher, self.settings)
        loss.backward()
        self.held.before_step()
        self.optimizer.step()
        self.held.after_step()


def train(
    model: nn.Module,
    examples: Examples,
    settings: Training,
    *,
    constraint: Constraint | None = None,
    teacher: nn.Module | None = None,
    told: Told | None = None,
    keep: Path | None = None,
) -> None:
    """Train ``model`` in place; ``told`` hears of every step (steps taken, steps in all).

    ``keep`` is a file in which an unfinished training is kept; if it is there, training goes on from it.
    """
    held, device = constraint or Free(model), examples.x_N.device
    steps = max(1, round(settings.epochs * (len(examples) // settings.batch or 1)))
    with _in_training(model, teacher):
        optimizer = _optimizer(held.parameters(), settings, device)
        held.begin(optimizer)
        random = torch.Generator(device).manual_seed(settings.seed)
        once = _Step(model, examples, settings, held, teacher, optimizer, random)
        unfinished = Unfinished(keep, f"{settings} {len(examples)}", model, optimizer, held, once)
        done = unfinished.load()
        take = Replay(once) if device.type == "cuda" else once
        for step, place_B in enumerate(_places(len(examples), settings, steps, device)):
            if step >= done:
                held.decide(step / steps)
                _set_rate(optimizer, settings, step / steps)
                take(place_B)
                if (step + 1) % _LOOKED_EVERY == 0 or step + 1 == steps:
                    _refuse_divergence(model, unfinished, f"step {step + 1} of {steps}", settings)
                unfinished.save_at_times(step + 1)
            if told is not None:
                told(step + 1, steps)
    unfinished.end()


def _refuse_divergence(model: nn.Module, unfinished: Unfinished, when: str, settings: Training) -> None:
    """Weights that are no numbers any more are no network; nothing is left that such a training could go on from."""
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            unfinished.end()
            raise CompressError(
                f"training diverged: at {when}, weights of {name} are not finite; lr={settings.lr:g} is too large, "
                "give a smaller one"
            )


@contextmanager
def _in_training(model: nn.Module, teacher: nn.Module | None) -> Iterator[None]:
    """The model's mode, and how images and filters lie in memory; as they were, afterwards."""
    was_training = model.training
    model.train()
    networks = [network for network in (model, teacher) if network is not None and _of_images(network)]
    for network in networks:
        _lay(network, torch.channels_last)
    try:
        yield
    finally:
        for network in networks:
            _lay(network, torch.contiguous_format)
        model.train(was_training)


def _lay(network: nn.Module, how: torch.memory_format) -> None:
    network.to(memory_format=how)  # type: ignore[call-overload]


def _of_images(network: nn.Module) -> bool:
    """Whether a network's filters may lie so: none is for volumes."""
    return all(parameter.ndim < 5 for parameter in network.parameters())


def _laid(x_B: Tensor) -> Tensor:
    """Images as the network's filters lie."""
    return x_B.contiguous(memory_format=torch.channels_last) if x_B.ndim == 4 else x_B


def _optimizer(parameters: list[nn.Parameter], settings: Training, device: torch.device) -> torch.optim.Optimizer:
    gpu = device.type == "cuda"
    lr = torch.tensor(settings.lr, device=device) if gpu else settings.lr
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr, weight_decay=settings.weight_decay, fused=True, capturable=gpu)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr, settings.momentum, weight_decay=settings.weight_decay, nesterov=True, fused=True
        )
    raise CompressError(f"optimizer={settings.optimizer!r} is not known; choose adamw or sgd")


def _set_rate(optimizer: torch.optim.Optimizer, settings: Training, passed: float) -> None:
    rate = settings.lr * (0.5 * (1 + cos(pi * passed)) if settings.rate == "cosine" else 1.0)
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _places(count: int, settings: Training, steps: int, device: torch.device) -> Iterator[Tensor]:
    """Batches of a new order every epoch; what does not fill a batch waits for another epoch's order."""
    order = torch.Generator().manual_seed(settings.seed)
    batch = min(settings.batch, count)
    taken = 0
    while taken < steps:
        permuted = torch.randperm(count, generator=order).to(device)
        for first in range(0, count - batch + 1, batch):
            yield permuted[first : first + batch]
            taken += 1
            if taken == steps:
                return


def _loss(model: nn.Module, x_B: Tensor, y_B: Tensor, teacher: nn.Module | None, settings: Training) -> Tensor:
    answer = model(x_B).float()
    hard = F.cross_entropy(answer, y_B)
    soft, heat = settings.soft, settings.temperature
    if teacher is None or soft == 0:
        return hard
    with torch.no_grad():
        target = (teacher(x_B).float() / heat).softmax(-1)
    return (1 - soft) * hard + soft * heat**2 * F.cross_entropy(answer / heat, target)


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
