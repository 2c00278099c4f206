"""The `adopt` axis: how a worker takes the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.world import At


@dataclass(frozen=True)
class Overwrite:
    """The worker becomes the centre: x ← c. Its momentum is kept, or starts anew."""

    momentum: Literal["keep", "reset"] = "keep"
    looks: ClassVar[Literal["before", "after"]] = "after"

    def adopt_(self, weight: Tensor, center: Tensor, at: At) -> None:
        """X ← c."""
        weight.copy_(center)


@dataclass(frozen=True)
class Elastic:
    """A spring pulls the worker towards the centre: x ← x − (β/P)·(x − c), with c as it was before it moved.

    The centre moves by the same springs' sum, so the two forces balance: Σ x + c stays what it was.
    Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD. NIPS 2015, arXiv 1412.6651.
    """

    beta: float = 0.9
    momentum: ClassVar[Literal["keep", "reset"]] = "keep"
    looks: ClassVar[Literal["before", "after"]] = "before"

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 2:
            raise RecipeError(
                f"beta={self.beta}: springs that strong overshoot for any number of workers; give 0 ≤ beta < 2"
            )

    def adopt_(self, weight: Tensor, center: Tensor, at: At) -> None:
        """X ← x − (β/P)·(x − c)."""
        weight.lerp_(center.to(weight.dtype), self.beta / at.world.size)


@dataclass(frozen=True)
class Rebase:
    """The worker takes the centre and keeps what it has not sent: x ← c + (x − c_known). It reads its own writes."""

    momentum: ClassVar[Literal["keep", "reset"]] = "keep"
    looks: ClassVar[Literal["before", "after"]] = "after"

    def adopt_(self, weight: Tensor, center: Tensor, at: At) -> None:
        """X ← c: nothing is unsent."""
        weight.copy_(center)

    def rebase_(self, weight: Tensor, reference: Tensor, center: Tensor, at: At) -> None:
        """X ← c + (x − c_known); exactly c where nothing is unsent."""
        weight.sub_(reference).add_(center)


def overwrite(momentum: Literal["keep", "reset"] = "keep") -> Overwrite:
    """Become the centre."""
    return Overwrite(momentum)


def elastic(beta: float = 0.9) -> Elastic:
    """Be pulled towards the centre."""
    return Elastic(beta)


def rebase() -> Rebase:
    """Take the centre, keep one's own steps."""
    return Rebase()


examples = (overwrite(), overwrite("reset"), elastic(), elastic(1.0), rebase())
