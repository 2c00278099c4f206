"""One paper as a test of the model: what it states, what it printed, what our predictions give from the same inputs.

A number that a paper does not state is not made up: it becomes a range, and the page says which, and what it would have
to be for the printed result to come out (``needs``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log10, prod
from typing import Literal

from tightwire.algebra.recipe import AnyRecipe, leaves
from tightwire.plan.made import made_profile
from tightwire.plan.profile import Coding, Profile, coding_key

TOLERANCE = 0.10
Evidence = Literal["read", "abstract", "second-hand", "from memory"]
"""How we know what was printed: read in the paper; in its abstract; in someone's account of it; or only remembered."""


@dataclass(frozen=True)
class Claim:
    """A printed number, and the range that the model gives; equal ends where every input is stated."""

    what: str
    printed: float
    low: float
    high: float
    unit: str = "×"
    evidence: Evidence = "read"
    open: str = ""
    needs: str = ""
    bound: bool = False  # no link, however fast, gives more than ``high``

    @property
    def verdict(self) -> str:
        """Whether the model and the paper agree, to a tenth."""
        if self.bound and self.printed > self.high * (1 + TOLERANCE):
            return "cannot be"
        if self.low * (1 - TOLERANCE) <= self.printed <= self.high * (1 + TOLERANCE):
            return "agrees" if self.low == self.high else "in the range"
        off = self.high / self.printed - 1 if self.printed > self.high else self.low / self.printed - 1
        return f"model {off:+.0%}"


@dataclass(frozen=True)
class Paper:
    """A paper and its claims."""

    name: str
    cite: str
    stated: str
    claims: tuple[Claim, ...]
    remark: str = ""
    curves: Mapping[str, Mapping[int, Claim]] = field(default_factory=dict)
    """Speed-ups over workers, by method, where a paper has several."""


def stated_profile(
    shapes: Mapping[str, tuple[int, ...]],
    *recipes: AnyRecipe,
    seconds: float,
    batch: int = 1,
    model: str = "",
    forward: float = 1 / 3,
) -> Profile:
    """A network of which sizes and the time of a step are known. Coding takes no time, for no paper says how long.

    The forward pass takes a third: one product of matrices for each layer, where the backward pass has two.
    """
    made = made_profile(
        shapes, forward_s=forward * seconds, backward_s=(1 - forward) * seconds, batch=batch, model=model
    )
    ways = [way for recipe in recipes for leaf in leaves(recipe) for way in (leaf.recipe.up, leaf.recipe.down)]
    return made.but(codings={coding_key(*way): Coding(0.0, 0.0, 0.0, 1, 0, 0) for way in ways})


def cut(total: int, pieces: int = 40) -> dict[str, tuple[int, ...]]:
    """A network of which only the number of parameters is known, as ``pieces`` matrices of equal size.

    >>> sum(prod(shape) for shape in cut(25_557_032).values())
    25557032
    """
    size, extra = divmod(total, pieces)
    return {f"layer{at}": (1, size + (at < extra)) for at in range(pieces)}


def solve(value: Callable[[float], float], target: float, low: float, high: float) -> float | None:
    """Where a monotone function takes a value, by bisection on a logarithmic scale; None if it does not in between.

    >>> round(solve(lambda x: x * x, 9.0, 1.0, 100.0), 3)
    3.0
    """
    rising = value(high) > value(low)
    if not min(value(low), value(high)) <= target <= max(value(low), value(high)):
        return None
    left, right = log10(low), log10(high)
    for _ in range(20):
        middle = (left + right) / 2
        left, right = (middle, right) if (value(10**middle) < target) == rising else (left, middle)
    return float(10**left)


def span(values: Mapping[float, float] | list[float]) -> tuple[float, float]:
    """The least and the greatest."""
    known = list(values.values()) if isinstance(values, Mapping) else values
    return min(known), max(known)


def numel(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Parameters of all tensors."""
    return sum(prod(shape) for shape in shapes.values())
