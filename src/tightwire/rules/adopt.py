"""The `adopt` axis: how a worker takes the result."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Overwrite:
    """The worker becomes the centre: x ← c."""

    def adopt_(self, weight: Tensor, center: Tensor) -> None:
        """X ← c."""
        weight.copy_(center)


def overwrite() -> Overwrite:
    """Become the centre."""
    return Overwrite()


examples = (overwrite(),)
