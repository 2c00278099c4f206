"""A sequential model cut into stages of adjacent layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from torch import nn

from tightwire.algebra.errors import JoinError


def stage_of(model: nn.Module, stages: int, stage: int, cuts: tuple[int, ...] | None) -> nn.Sequential:
    """The layers of one stage: the very modules of the model, in order.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> [len(stage_of(net, 2, stage, None)) for stage in (0, 1)]
    [2, 1]
    """
    layers = _layers(model, stages)
    edges = [0, *(cuts or balanced_cuts([_size(layer) for layer in layers], stages)), len(layers)]
    if any(lo >= hi for lo, hi in pairwise(edges)):
        raise JoinError(f"cuts={cuts} of {len(layers)} layers leave a stage empty; cuts must grow and lie inside")
    return nn.Sequential(*layers[edges[stage] : edges[stage + 1]])


def _layers(model: nn.Module, stages: int) -> list[nn.Module]:
    if not isinstance(model, nn.Sequential):
        raise JoinError(
            f"a split cuts nn.Sequential models between their layers; {type(model).__name__} is not one: "
            "write it as nn.Sequential, or use a recipe without split"
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


def _size(layer: nn.Module) -> int:
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
