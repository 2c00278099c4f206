"""A training that has not ended, in one safetensors file: cut off, it goes on from there to the same weights.

    model/…       the network            optimizer/i/…    what is remembered of the i-th parameter
    constraint/…  masks, centroids       random, step     where the drawing of random numbers, and training, are

Written every half minute, beside its place and moved into it; gone when training has ended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.files import writing

_EVERY_S = 30.0


class Kept(Protocol):
    """What a constraint must remember."""

    def state(self) -> dict[str, Tensor]:
        """By name."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Be as it was when this was its state."""


class Draws(Protocol):
    """Whoever draws random numbers."""

    random: torch.Generator


@dataclass(eq=False)
class Unfinished:
    """All that changes in a training; ``path`` None keeps nothing. ``settings`` tells one training from another."""

    path: Path | None
    settings: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    constraint: Kept
    draws: Draws
    _saved_s: float = field(default_factory=time.monotonic)

    def load(self) -> int:
        """Go on where the file says; the number of steps that are done."""
        if self.path is None or not self.path.exists():
            return 0
        try:
            with safe_open(self.path, "pt") as file:
                settings = file.metadata()["settings"]
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if settings != self.settings:
                raise CompressError(f"{self.path} holds an unfinished training with other settings; remove the file")
            self.model.load_state_dict(_under("model/", tensors))
            self._load_optimizer(_under("optimizer/", tensors))
            self.constraint.restore(_under("constraint/", tensors))
            self.draws.random.set_state(tensors["random"])
            return int(tensors["step"])
        except (OSError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise CompressError(f"{self.path} cannot be gone on with ({error}); remove the file") from None

    def save_at_times(self, step: int) -> None:
        """Keep what there is after ``step`` steps, if the last time is long enough ago."""
        if self.path is not None and time.monotonic() - self._saved_s >= _EVERY_S:
            self.save(step)
            self._saved_s = time.monotonic()

    def save(self, step: int) -> None:
        """Keep what there is after ``step`` steps."""
        if self.path is None:
            return
        tensors = {f"model/{name}": tensor for name, tensor in self.model.state_dict().items()}
        for number, parameter in enumerate(_parameters(self.optimizer)):
            for name, tensor in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer/{number}/{name}"] = tensor
        tensors |= {f"constraint/{name}": tensor for name, tensor in self.constraint.state().items()}
        tensors |= {"random": self.draws.random.get_state(), "step": torch.tensor(step)}
        plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        with writing(self.path) as partial:
            save_file(plain, partial, metadata={"settings": self.settings})

    def end(self) -> None:
        """Training has ended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _load_optimizer(self, tensors: dict[str, Tensor]) -> None:
        parameters = _parameters(self.optimizer)
        for key, tensor in tensors.items():
            number, _, name = key.partition("/")
            parameter = parameters[int(number)]
            own = torch.empty_like(parameter) if tensor.shape == parameter.shape else torch.empty_like(tensor)
            self.optimizer.state[parameter][name] = own.to(parameter.device).detach().copy_(tensor)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
