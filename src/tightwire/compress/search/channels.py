"""Channel pruning: units are groups of channels; what is left is refitted by least squares.

rank      what harms least goes first (`ranking`)
measure   readers' columns refitted (`reconstruct`), the others zero: the same answers as the network that is cut
cut       the same weights, with the channels taken out of every layer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import lcm

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tightwire.compress.search.cost import Levels
from tightwire.compress.search.groups import Group, cut_
from tightwire.compress.search.layers import Layer
from tightwire.compress.search.measure import Measure, Version
from tightwire.compress.search.ranking import rank
from tightwire.compress.search.reconstruct import refit
from tightwire.compress.search.remembered import Remembered
from tightwire.compress.search.seen import Seen
from tightwire.compress.search.units import Choice, Unit

_MOST_CHOICES = 32


def channel_units(
    groups: Sequence[Group], layers: Mapping[str, Layer], *, multiple_of: int = 1, least: float = 0.2,
    bits: int | None = None,
) -> tuple[Unit, ...]:  # fmt: skip
    """A unit for each group, of multiples of ``multiple_of`` channels, at least the share ``least``, or all."""
    units = []
    for group in groups:
        counts = counts_of(group.width, parts=group.parts, multiple_of=multiple_of, least=least)
        choices = tuple(Choice(count / group.width, count, "channels", bits) for count in counts)
        units.append(Unit(group.name, layers[group.name].shape, group.width, (len(choices),), choices))
    return tuple(units)


def counts_of(width: int, *, parts: int, multiple_of: int, least: float) -> list[int]:
    """How many channels may stay: multiples, from the least share on, and all of them; at most some dozens.

    >>> counts_of(20, parts=1, multiple_of=8, least=0.2), counts_of(10, parts=1, multiple_of=3, least=0.5)
    ([8, 16, 20], [6, 9, 10])
    >>> counts_of(6, parts=1, multiple_of=8, least=0.2)
    [2, 3, 4, 5, 6]
    """
    step = lcm(parts, multiple_of)
    step = step if step <= width else parts
    counts = [n for n in range(step, width, step) if n >= least * width]
    if len(counts) >= _MOST_CHOICES:
        places = np.linspace(0, len(counts) - 1, _MOST_CHOICES - 1).round().astype(int)
        counts = [counts[p] for p in np.unique(places)]
    return [*counts, width]


@dataclass(eq=False)
class Channels:
    """Measures policies of channels, and cuts the one that is kept."""

    model: nn.Module
    layers: Mapping[str, Layer]
    groups: Sequence[Group]
    units: Sequence[Unit]
    seen: Seen
    measure: Measure
    _refitted: Remembered = field(default_factory=Remembered)

    def __post_init__(self) -> None:
        """Rank the channels of every group."""
        self._order = [rank(group, self.layers, self.seen) for group in self.groups]
        self._reads = {
            name: [(u, group.readers[name]) for u, group in enumerate(self.groups) if name in group.readers]
            for name in self.layers
            if any(name in group.readers for group in self.groups)
        }

    def errors(self, level_BT: Levels) -> list[float]:
        """The share of wrong answers of each policy."""
        return self.measure.errors([self.version([int(level) for level in row]) for row in level_BT])

    @property
    def readers(self) -> Sequence[str]:
        """The layers that read channels of any group."""
        return tuple(self._reads)

    def version(self, levels: Sequence[int]) -> dict[str, Tensor]:
        """The tensors of a policy, nothing cut yet."""
        made: dict[str, Tensor] = {}
        for name in self._reads:
            made |= self._fitted(name, levels)
        return made

    def alone(self, u: int, level: int) -> dict[str, Version]:
        """The tensors of each layer that reads unit ``u``, all other units whole."""
        levels = [len(unit.choices) - 1 for unit in self.units]
        levels[u] = level
        return {
            name: self._fitted(name, levels)
            for name, reads in self._reads.items()
            if any(unit == u for unit, _ in reads)
        }

    def _fitted(self, name: str, levels: Sequence[int]) -> Version:
        """The tensors of one layer, remembered."""
        key = name, tuple(levels[u] for u, _ in self._reads[name])
        return self._refitted.get(key, lambda: self._refit(name, levels))

    def kept(self, levels: Sequence[int], *, multiple_of: int = 1) -> dict[str, NDArray[np.intp]]:
        """The channels that stay, by the name of their group."""
        return {group.name: self._kept(u, levels[u], multiple_of) for u, group in enumerate(self.groups)}

    def cut(self, levels: Sequence[int], example: Tensor, *, multiple_of: int = 1) -> nn.Module:
        """A copy of the network with the channels gone, its batch norms' statistics its own.

        With ``multiple_of`` some stay that nobody reads: the network answers the same, in widths that a GPU likes.
        """
        model = deepcopy(self.model).eval()
        state = model.state_dict()
        with torch.no_grad():
            for name, tensor in self.measure.calibrated(self.version(levels)).items():
                state[name].copy_(tensor)
        cut_(model, example, self.kept(levels, multiple_of=multiple_of))
        return model

    def _kept(self, u: int, level: int, multiple_of: int = 1) -> NDArray[np.intp]:
        count, group = self.units[u].choices[level].kept, self.groups[u]
        count += -count % lcm(multiple_of, group.parts)  # more than there are: all of them
        local = np.sort(self._order[u][: count // group.parts])
        side = group.width // group.parts
        return np.concatenate([local + part * side for part in range(group.parts)])

    def _refit(self, name: str, levels: Sequence[int]) -> dict[str, Tensor]:
        gone = np.zeros(self.layers[name].shape.c, bool)
        for u, columns in self._reads[name]:
            gone[columns.ravel()] = True
            gone[columns[self._kept(u, levels[u])].ravel()] = False
        return refit(self.layers[name], np.flatnonzero(~gone), self.seen.known)
