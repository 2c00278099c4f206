"""What a recipe sends, laid out as the runtime lays it out: lanes and their buckets, without any memory behind them.

The very functions that the runtime uses (`algebra.recipe.resolve`, `run.parcel.pack`, `run.lane.Group`) make the
buckets here, from shapes on torch's meta device.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice
from typing import Literal

import torch
from torch import nn

from tightwire.algebra.recipe import AnyRecipe, Leaf, Recipe, resolve
from tightwire.algebra.tensors import Spec
from tightwire.algebra.world import World
from tightwire.plan.cluster import Cluster
from tightwire.plan.errors import PlanError
from tightwire.plan.profile import Profile
from tightwire.run.lane import Group
from tightwire.run.parcel import pack
from tightwire.run.shards import groups_of

_KEPT = 512
_HORIZON = 5000  # steps in which a schedule that exchanges at all does so twice


@dataclass(frozen=True, eq=False)
class Load:
    """One bucket; ``ready_s``: when its last gradient is there, from the start of the backward pass."""

    label: str
    spec: Spec
    ready_s: float
    place: int


@dataclass(frozen=True, eq=False)
class Way:
    """One lane: a recipe without combinators, its buckets and its groups."""

    leaf: Leaf
    loads: tuple[Load, ...]
    groups: tuple[tuple[int, ...], ...]  # of the inner tier
    speakers: tuple[int, ...]
    number: int
    jobs: dict[tuple[object, ...], tuple[object, object]] = field(default_factory=dict)  # `plan.jobs.kept_job_of`

    @property
    def recipe(self) -> Recipe:
        """The recipe of the lane."""
        return self.leaf.recipe

    @property
    def pattern(self) -> str:
        """The shape of its exchange."""
        return self.recipe.exchange.pattern

    @property
    def early(self) -> bool:
        """True if the exchange can start during the backward pass."""
        return self.recipe.send.when == "backward" and self.pattern != "nobody"

    @property
    def collective(self) -> bool:
        """True if workers exchange among themselves."""
        return self.pattern in ("reduce", "gather", "owners", "peers")

    @property
    def plain(self) -> bool:
        """True if the bucket itself travels."""
        memory, codec = self.recipe.up
        return codec.identity and not memory.keeps

    @cached_property
    def nbytes(self) -> int:
        """All buckets."""
        return sum(load.spec.nbytes for load in self.loads)

    @cached_property
    def push_every(self) -> int:
        """Steps from one contribution to the next; 0 if there is none."""
        return self._every("push")

    @cached_property
    def pull_every(self) -> int:
        """Steps from one reading to the next; 0 if there is none."""
        return self._every("pull")

    def _every(self, what: Literal["push", "pull"]) -> int:
        due = (n for n in range(_HORIZON) if getattr(self.recipe.schedule.due(n), what))
        found = list(islice(due, 2))
        return found[1] - found[0] if len(found) == 2 else 0


_known: OrderedDict[tuple[object, ...], tuple[object, object, list[Way]]] = OrderedDict()


def lay_out(recipe: AnyRecipe, profile: Profile, cluster: Cluster, workers: int, *, step: int) -> list[Way]:
    """The lanes of a recipe at a step, as every worker has them; those of the last few hundred questions are kept."""
    if workers < 1:
        raise PlanError(f"{workers} workers train nothing; give at least 1")
    key = (id(recipe), id(profile.tensors), cluster.hosts(workers), step)
    if key not in _known:
        made = _laid_out(recipe, profile, cluster, workers, step)
        _known[key] = (recipe, profile.tensors, made)  # what lives keeps its identity
        if len(_known) > _KEPT:
            _known.popitem(last=False)
    return _known[key][2]


def _laid_out(recipe: AnyRecipe, profile: Profile, cluster: Cluster, workers: int, step: int) -> list[Way]:
    shapes = {tensor.name: tensor.shape for tensor in profile.tensors}
    world = World(0, workers, hosts=cluster.hosts(workers))
    numbers = count()
    return [
        _way(leaf, names, profile, world, number)
        for (leaf, names), number in zip(resolve(recipe, shapes, step), numbers, strict=False)
    ]


def _way(leaf: Leaf, names: tuple[str, ...], profile: Profile, world: World, number: int) -> Way:
    known = {tensor.name: tensor for tensor in profile.tensors}
    order = {tensor.name: place for place, tensor in enumerate(profile.tensors)}
    tensors = {
        name: nn.Parameter(
            torch.empty(known[name].shape, dtype=getattr(torch, known[name].dtype), device="meta"), requires_grad=False
        )
        for name in names
    }
    memory, codec = leaf.recipe.up
    dtype = None if codec.identity and not memory.keeps else torch.float32
    silent = leaf.recipe.exchange.pattern == "nobody"
    label = f"{leaf.recipe.name}.{number}"
    parcels = [] if silent else pack(tensors, leaf.recipe.grain, label=label, dtype=dtype)
    loads = tuple(
        Load(
            parcel.label,
            replace(parcel.x.spec, device="cpu"),
            max(known[name].ready_s for name in parcel.tensors),
            min(order[name] for name in parcel.tensors),
        )
        for parcel in parcels
    )
    speakers = Group.of(leaf, world).outer
    return Way(leaf, loads, tuple(groups_of(leaf, world)), speakers, number)
