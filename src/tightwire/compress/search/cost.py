"""What a policy costs, for many policies at once: a sum over layers, each a function of its channels in and out.

    total(choices) = fixed + Σ_units own[unit][choice] + Σ_layers f(channels in, channels out)

Single weights have costs of their own; channels are paid by every layer that reads or writes them, so that the price
of one unit depends on its neighbours. Every f grows with both counts (`clip` relies on it). B policies, T units,
C choices of a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError

Floats: TypeAlias = NDArray[np.float64]
Levels: TypeAlias = NDArray[np.intp]
Curve: TypeAlias = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Reads:
    """Channels of a layer: a fixed number, and so many for each channel that a unit keeps."""

    fixed: int
    units: tuple[tuple[int, int], ...] = ()  # unit, how many here for each kept there


@dataclass(frozen=True, eq=False)
class Term:
    """One layer: its channels in and out, and what so many of them cost."""

    inputs: Reads
    outputs: Reads
    cost: Curve

    @property
    def units(self) -> set[int]:
        """Which units it depends on."""
        return {unit for unit, _ in (*self.inputs.units, *self.outputs.units)}


@dataclass(frozen=True, eq=False)
class Cost:
    """The cost of choices: ``kept`` and ``own`` have a number for each choice of each unit."""

    name: str
    kept: tuple[Floats, ...]
    own: tuple[Floats, ...]
    terms: tuple[Term, ...] = ()
    fixed: float = 0.0

    def __post_init__(self) -> None:
        """Know which layers each unit touches."""
        touching = [[term for term in self.terms if t in term.units] for t in range(len(self.own))]
        object.__setattr__(self, "_touching", touching)

    @property
    def cheapest(self) -> Levels:
        """The choice of each unit that no other makes cheaper, whatever the others do."""
        return np.array([int(np.lexsort((own, kept))[0]) if self._in_terms(t) else int(np.argmin(own))
                         for t, (kept, own) in enumerate(zip(self.kept, self.own, strict=True))], np.intp)  # fmt: skip

    @property
    def dearest(self) -> Levels:
        """The choice of each unit that keeps most."""
        return np.array(
            [int(np.lexsort((own, kept))[-1]) for kept, own in zip(self.kept, self.own, strict=True)], np.intp
        )

    @property
    def least(self) -> float:
        """What the smallest policy costs."""
        return float(self.total(self.cheapest[None])[0])

    @property
    def most(self) -> float:
        """What the largest policy costs."""
        return float(self.total(self.dearest[None])[0])

    def total(self, level_BT: Levels) -> Floats:
        """The cost of each policy."""
        total_B = np.full(len(level_BT), self.fixed)
        for t, own in enumerate(self.own):
            total_B += own[level_BT[:, t]]
        for term in self.terms:
            total_B += term.cost(self._count(term.inputs, level_BT), self._count(term.outputs, level_BT))
        return total_B

    def around(self, level_BT: Levels, t: int) -> Floats:
        """The cost of each policy with each choice of unit ``t`` in it."""
        rest_B = self.total(level_BT) - self.part(level_BT, t)
        choices = len(self.own[t])
        part_BC = np.broadcast_to(self.own[t], (len(level_BT), choices)).copy()
        for term in self._touched(t):
            inputs_BC = self._counts_around(term.inputs, level_BT, t)
            outputs_BC = self._counts_around(term.outputs, level_BT, t)
            part_BC += term.cost(inputs_BC, outputs_BC)
        return rest_B[:, None] + part_BC

    def part(self, level_BT: Levels, t: int) -> Floats:
        """What unit ``t`` and all layers that it touches cost."""
        part_B = self.own[t][level_BT[:, t]].copy()
        for term in self._touched(t):
            part_B += term.cost(self._count(term.inputs, level_BT), self._count(term.outputs, level_BT))
        return part_B

    def check(self, target: float) -> None:
        """Refuse a target that no policy meets."""
        if self.least > target:
            raise CompressError(
                f"{self.name} of {target:.6g} cannot be met: the smallest policy takes {self.least:.6g}; ask for more, "
                "or let more be pruned (--least)"
            )

    def _touched(self, t: int) -> Sequence[Term]:
        found: list[list[Term]] = self._touching  # type: ignore[attr-defined]
        return found[t]

    def _in_terms(self, t: int) -> bool:
        return bool(self._touched(t))

    def _count(self, reads: Reads, level_BT: Levels) -> Floats:
        count_B = np.full(len(level_BT), float(reads.fixed))
        for unit, each in reads.units:
            count_B += each * self.kept[unit][level_BT[:, unit]]
        return count_B

    def _counts_around(self, reads: Reads, level_BT: Levels, t: int) -> Floats:
        others = Reads(reads.fixed, tuple((unit, each) for unit, each in reads.units if unit != t))
        each_here = sum(each for unit, each in reads.units if unit == t)
        return self._count(others, level_BT)[:, None] + each_here * self.kept[t][None, :]
