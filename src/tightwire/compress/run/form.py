"""The forms in which a layer can run, and the record of which was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from torch import Tensor

FormName = Literal["dense", "sparse", "compressed"]
FORMS: tuple[FormName, ...] = ("dense", "sparse", "compressed")


class Form(Protocol):
    """Weights in one form, and how the layer is computed from them; the bias included."""

    @property
    def nbytes(self) -> int:
        """What the weights take in memory."""
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """The layer's output."""
        ...


@dataclass(frozen=True)
class Choice:
    """Which form a layer runs in, and why."""

    layer: str
    shape: tuple[int, ...]
    density: float
    form: FormName
    why: Literal["measured", "remembered", "asked for", "the only one"]
    seconds: Mapping[str, float] = field(default_factory=dict)  # of each form that was timed, on the rows that were

    def __str__(self) -> str:
        """One line for a person."""
        times = ", ".join(f"{name} {1e6 * s:.0f} µs" for name, s in sorted(self.seconds.items(), key=lambda e: e[1]))
        return f"{self.layer} {self.shape} at {100 * self.density:.1f}%: {self.form} ({times or self.why})"
