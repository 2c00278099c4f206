"""A sequential model cut into stages of adjacent layers, and who keeps which.

3 stages, 4 workers, the last layer dealt out (wide=4)

worker    0         1         2         3
stage 0   fc1 fc2
stage 1             fc3 fc4
stage 2   ▒ fc5     ▒ fc5     ▒▒▒ fc5   ▒▒▒ fc5        columns, so that all have the same work
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from torch import nn

from tightwire.algebra.errors import JoinError
from tightwire.algebra.split import Split
from tightwire.splits.wide import check_columns


@dataclass(frozen=True)
class Seating:
    """Where a model is cut: stage s has layers ``edges[s]`` to ``edges[s+1]``; columns of the last layer by worker."""

    layers: tuple[nn.Module, ...]
    edges: tuple[int, ...]
    columns: tuple[int, ...]
    workers: int

    def stage(self, stage: int) -> nn.Sequential:
        """The layers of one stage: the very modules of the model, in order."""
        return nn.Sequential(*self.layers[self.edges[stage] : self.edges[stage + 1]])

    @property
    def stages(self) -> int:
        """How many there are."""
        return len(self.edges) - 1

    def owners(self, stage: int) -> tuple[int, ...]:
        """The workers that keep a stage, or a part of it."""
        if self.columns and stage == self.stages - 1:
            return tuple(worker for worker, count in enumerate(self.columns) if count)
        return (stage % self.workers,)


def seating_of(model: nn.Module, split: Split) -> Seating:
    """Cut a model as a split says; what it leaves open is balanced by the number of parameters."""
    layers = _layers(model, split.stages)
    cut = split.cut
    if not cut.wide:
        cuts = cut.cuts or balanced_cuts([size_of(layer) for layer in layers], split.stages)
        return _checked(layers, cut.cuts, (0, *cuts, len(layers)), (), split.workers // cut.replicas)
    sizes = [size_of(layer) for layer in layers[:-1]]
    cuts = cut.cuts or (*balanced_cuts(sizes, split.stages - 1), len(layers) - 1)
    if cuts[-1] != len(layers) - 1:
        raise JoinError(f"cuts={cuts}: what is dealt out is the last of {len(layers)} layers alone; end with "
                        f"{len(layers) - 1}")  # fmt: skip
    loads = [sum(sizes[lo:hi]) for lo, hi in pairwise((0, *cuts))] + [0] * (cut.wide - split.stages + 1)
    units = getattr(layers[-1], "out_features", 0)
    columns = cut.columns or deal(loads, size_of(layers[-1]), units)
    check_columns(layers[-1], columns)
    return _checked(layers, cut.cuts, (0, *cuts, len(layers)), tuple(columns), split.workers // cut.replicas)


def _checked(
    layers: Sequence[nn.Module],
    given: tuple[int, ...] | None,
    edges: tuple[int, ...],
    columns: tuple[int, ...],
    workers: int,
) -> Seating:
    if any(lo >= hi for lo, hi in pairwise(edges)):
        raise JoinError(f"cuts={given} of {len(layers)} layers leave a stage empty; cuts must grow and lie inside")
    return Seating(tuple(layers), edges, columns, workers)


def deal(loads: Sequence[float], total: float, units: int, pace: Sequence[float] | None = None) -> tuple[int, ...]:
    """Deal out ``units`` that cost ``total`` together, so that the most loaded of all workers has as little as can be.

    ``pace`` says how many times longer than ``total`` means units take each worker.

    >>> deal([5, 3, 0], 10, 100), deal([0, 0], 10, 90, [1, 2])
    ((10, 30, 60), (60, 30))
    """
    slow = pace or [1.0] * len(loads)
    level, poorest = 0.0, sorted(zip(loads, slow, strict=True))
    for count in range(1, len(poorest) + 1):  # the level to which the poorest so many can be filled
        filled = poorest[:count]
        level = (total + sum(load / each for load, each in filled)) / sum(1 / each for _, each in filled)
        if count == len(poorest) or level <= poorest[count][0]:
            break
    wanted = [max(0.0, level - load) / each / total * units if total else 0.0
              for load, each in zip(loads, slow, strict=True)]  # fmt: skip
    whole = [int(want) for want in wanted]
    by_rest = sorted(range(len(loads)), key=lambda worker: whole[worker] - wanted[worker])
    for worker in by_rest[: units - sum(whole)]:
        whole[worker] += 1
    return tuple(whole)


def stage_of(model: nn.Module, stages: int, stage: int, cuts: tuple[int, ...] | None) -> nn.Sequential:
    """The layers of one stage: the very modules of the model, in order.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> [len(stage_of(net, 2, stage, None)) for stage in (0, 1)]
    [2, 1]
    """
    layers = _layers(model, stages)
    edges = (0, *(cuts or balanced_cuts([size_of(layer) for layer in layers], stages)), len(layers))
    return _checked(layers, cuts, edges, (), stages).stage(stage)


def _layers(model: nn.Module, stages: int) -> list[nn.Module]:
    if not isinstance(model, nn.Sequential):
        raise JoinError(
            f"a split cuts nn.Sequential models between their layers; {type(model).__name__} is not one: write it as "
            "nn.Sequential, make it one (tightwire.splits.export.as_sequential), or use a recipe without split"
        )
    if len(model) < stages:
        raise JoinError(f"{len(model)} layers cannot make {stages} stages; use at most {len(model)} workers")
    layers = list(model)
    owner: dict[int, int] = {}
    for index, layer in enumerate(layers):
        for parameter in layer.parameters():
            if owner.setdefault(id(parameter), index) != index:
                raise JoinError(f"layers {owner[id(parameter)]} and {index} share a weight; a split cannot cut between "
                                "them yet: untie them, or put both into one nn.Sequential")  # fmt: skip
    return layers


def size_of(layer: nn.Module) -> int:
    """Parameters of a layer."""
    return sum(p.numel() for p in layer.parameters())


def balanced_cuts(sizes: Sequence[int], stages: int) -> tuple[int, ...]:
    """The cuts whose largest stage is smallest; layers without weights stay with those before them.

    >>> balanced_cuts([32, 0, 16, 0, 10], 2)
    (2,)
    """
    heavy = [i for i, size in enumerate(sizes) if size]
    places = heavy[1:] if len(heavy) >= stages else list(range(1, len(sizes)))

    @cache
    def best(stages: int, end: int) -> tuple[int, tuple[int, ...]]:
        """(largest stage, cuts) of the layers before ``end``."""
        if stages == 1:
            return sum(sizes[:end]), ()
        options = []
        for cut in places:
            if cut < end and sum(place < cut for place in places) >= stages - 2:
                before, cuts = best(stages - 1, cut)
                options.append((max(before, sum(sizes[cut:end])), (*cuts, cut)))
        return min(options)

    return best(stages, len(sizes))[1]
