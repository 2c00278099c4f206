"""Pruning of single weights, or blocks of them, and sharing what is left: units are layers.

density      the largest groups of the pattern, as many as fit           `prune.choose.by_density`, ranked once
pattern      fine, vector:4, kernel, …                                   only in a joint search
bits         k-means with 2^bits values                                  only in a joint search, or for bytes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from tightwire.compress.plan import parse_pattern
from tightwire.compress.prune.masks import prunable
from tightwire.compress.search.cost import Levels
from tightwire.compress.search.layers import Layer
from tightwire.compress.search.measure import Measure
from tightwire.compress.search.remembered import Remembered
from tightwire.compress.search.units import Choice, Unit, grid
from tightwire.compress.share.tensors import share
from tightwire.compress.shared_weights import SharedWeights


def densities(count: int, least: float, most: float = 1.0) -> list[float]:
    """From the least to the most, each the same factor above the last; both are the same where less is left.

    >>> [round(d, 3) for d in densities(3, 0.04)], densities(2, 0.1, 0.05)
    ([0.04, 0.2, 1.0], [0.1, 0.1])
    """
    return [float(d) for d in np.geomspace(least, max(least, most), count)]


def weight_units(
    layers: Mapping[str, Layer], *, levels: int = 64, least: float = 0.02, patterns: Sequence[str] = ("fine",),
    bits: Sequence[int | None] = (None,),
) -> tuple[Unit, ...]:  # fmt: skip
    """A unit for each layer; more than one pattern or number of bits makes the search joint.

    A layer that was pruned before can keep what is left of it, and pays for no more.
    """
    axes = (levels, len(patterns), len(bits)) if len(patterns) * len(bits) > 1 else (levels,)
    return tuple(
        Unit(f"{name}.weight", layer.shape, whole := layer.module.weight.numel(), axes,
             grid(densities(levels, least, _left(layer)), whole, patterns=patterns, bits=bits))
        for name, layer in layers.items()
    )  # fmt: skip


def _left(layer: Layer) -> float:
    weight = layer.module.weight
    return int(weight.count_nonzero()) / weight.numel()


class _Ranked:
    """The groups of one weight in one pattern, ranked once."""

    def __init__(self, weight: Tensor, pattern: str) -> None:
        self._pattern, self._weight = parse_pattern(pattern), weight
        score = self._pattern.scores(weight)
        order_G = score.flatten().argsort(descending=True, stable=True)
        size_G = self._pattern.sizes(weight).flatten()[order_G].double()
        self._whole, self._filled_G = float(size_G.sum()), size_G.cumsum(0)
        self._positive = int((score > 0).sum())
        self._rank_G = torch.empty_like(order_G)
        self._rank_G[order_G] = torch.arange(len(order_G), device=order_G.device)
        self._shape = score.shape

    def pruned(self, density: float) -> Tensor:
        """The weight with all but the largest groups zero."""
        limit = torch.tensor(round(density * self._whole), dtype=torch.float64, device=self._filled_G.device)
        count = min(int(torch.searchsorted(self._filled_G, limit, right=True)), self._positive)
        return self._weight * self._pattern.expand((self._rank_G < count).reshape(self._shape), self._weight)


@dataclass(eq=False)
class Weights:
    """Measures policies of single weights."""

    model: nn.Module
    units: Sequence[Unit]
    measure: Measure
    _ranked: dict[tuple[int, str], _Ranked] = field(default_factory=dict)
    _made: Remembered = field(default_factory=Remembered)

    def __post_init__(self) -> None:
        """Hold on to the weights as they are."""
        own = prunable(self.model)
        self._weights = [own[unit.name].detach().clone() for unit in self.units]

    def errors(self, level_BT: Levels) -> list[float]:
        """The share of wrong answers of each policy."""
        return self.measure.errors([self.version([int(level) for level in row]) for row in level_BT])

    def version(self, levels: Sequence[int]) -> dict[str, Tensor]:
        """The tensors of a policy."""
        return {unit.name: self.tensor(u, levels[u]) for u, unit in enumerate(self.units)}

    def tensor(self, u: int, level: int) -> Tensor:
        """A layer's weight as one of its choices has it; remembered while there is room."""
        unit = self.units[u]
        return self._made.get((u, level), lambda: {unit.name: self._make(u, unit.choices[level])})[unit.name]

    def shared(self, u: int, level: int) -> SharedWeights:
        """The same as codes and centroids."""
        choice = self.units[u].choices[level]
        assert choice.bits is not None
        return share(self._pruned(u, choice), 1 << choice.bits)

    def _make(self, u: int, choice: Choice) -> Tensor:
        pruned = self._pruned(u, choice)
        return pruned if choice.bits is None else share(pruned, 1 << choice.bits).dense().to(pruned.device)

    def _pruned(self, u: int, choice: Choice) -> Tensor:
        key = u, choice.pattern
        if key not in self._ranked:
            self._ranked[key] = _Ranked(self._weights[u], choice.pattern)
        return self._ranked[key].pruned(choice.ratio)
