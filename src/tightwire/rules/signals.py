"""The `send` axis: what travels. Directions are old − new, so that a centre always subtracts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tightwire.algebra.rule import Kind


@dataclass(frozen=True)
class Gradient:
    """The gradient of the worker's batch, bucket by bucket while the backward pass runs."""

    kind: ClassVar[Kind] = "direction"
    when: ClassVar[Literal["backward", "after_local"]] = "backward"
    needs_center: ClassVar[bool] = False

    def fill_(self, x: Tensor, weight: Tensor, center: Tensor | None, scale: float) -> None:
        """Never called: gradients are put into their bucket by the hooks of the backward pass."""
        raise AssertionError("gradients come from the backward pass")


@dataclass(frozen=True)
class Weights:
    """The worker's weights themselves."""

    kind: ClassVar[Kind] = "position"
    when: ClassVar[Literal["backward", "after_local"]] = "after_local"
    needs_center: ClassVar[bool] = False

    def fill_(self, x: Tensor, weight: Tensor, center: Tensor | None, scale: float) -> None:
        """X ← scale · w."""
        torch.mul(weight, scale, out=x)


@dataclass(frozen=True)
class FromCenter:
    """How far the worker is from the centre it keeps: c − w.

    Where workers become the centre after each exchange this is their *progress* since then; where they only are pulled
    towards it, their *displacement*.
    """

    kind: ClassVar[Kind] = "direction"
    when: ClassVar[Literal["backward", "after_local"]] = "after_local"
    needs_center: ClassVar[bool] = True

    def fill_(self, x: Tensor, weight: Tensor, center: Tensor | None, scale: float) -> None:
        """X ← scale · (c − w)."""
        assert center is not None
        torch.sub(center, weight, out=x).mul_(scale)


def gradient() -> Gradient:
    """Send gradients."""
    return Gradient()


def weights() -> Weights:
    """Send weights."""
    return Weights()


def progress() -> FromCenter:
    """Send what the worker moved since it last adopted the centre."""
    return FromCenter()


def displacement() -> FromCenter:
    """Send how far the worker is from the centre."""
    return FromCenter()


examples = (gradient(), weights(), progress())
