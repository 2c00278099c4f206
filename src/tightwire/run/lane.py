"""A lane: one recipe without combinators, and the tensors that go by it on this worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from tightwire import kernels
from tightwire.algebra.compressor import Composed, Compressor
from tightwire.algebra.recipe import AnyRecipe, Leaf, resolve
from tightwire.algebra.rule import Seat
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At, World
from tightwire.run.parcel import Parcel, pack

Members = tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """With whom a lane exchanges: ``inner`` inside this worker's tier, ``outer`` between the tiers' first members."""

    inner: Members
    outer: Members
    speaks: bool

    @classmethod
    def of(cls, leaf: Leaf, world: World) -> Group:
        """The groups that a leaf's tiers make of a world."""
        if leaf.by is None:
            return cls((world.rank,), tuple(range(world.size)), speaks=True)
        labels = leaf.by(world)
        inner = world.members_of(labels)
        firsts = tuple(rank for rank, label in enumerate(labels) if label not in labels[:rank])
        return cls(inner, firsts, speaks=world.rank == inner[0])


class Lane:
    """Parcels of one leaf recipe."""

    def __init__(self, leaf: Leaf, tensors: Mapping[str, nn.Parameter], world: World, *, label: str) -> None:
        self.leaf = leaf
        self.recipe = leaf.recipe
        self.label = label
        self.world = world
        self.group = Group.of(leaf, world)
        memory, codec = self.recipe.up
        self.plain = codec.identity and not memory.keeps
        dtype = None if self.plain else torch.float32  # what is lossy or remembered is kept in full precision
        silent = self.recipe.exchange.pattern == "nobody"
        self.parcels = [] if silent else pack(tensors, self.recipe.grain, label=label, dtype=dtype)
        self.tensors = dict(tensors)
        device = next(iter(tensors.values())).device
        self.compressor: Compressor = kernels.find(memory, codec, device)
        for parcel in self.parcels:
            self._equip(parcel)

    @property
    def early(self) -> bool:
        """True if the exchange can start during the backward pass."""
        return self.recipe.send.when == "backward" and self.recipe.exchange.pattern != "nobody"

    @property
    def collective(self) -> bool:
        """True if workers exchange among themselves."""
        return self.recipe.exchange.pattern in ("reduce", "gather", "owners", "peers")

    @property
    def has_center(self) -> bool:
        """True if the answer is a centre that moves only by what it is sent."""
        return self.recipe.send.needs_center or self.recipe.exchange.pattern in ("server", "memory")

    @property
    def takes_loose(self) -> bool:
        """True if gradients need not be copied into a bucket: the compressor reads them where they lie."""
        loose = getattr(self.compressor, "takes_loose", False)
        return bool(loose) and self.recipe.exchange.pattern == "gather" and self.leaf.inner is None

    def begins_here(self, parcel: Parcel) -> bool:
        """True if whoever completes a parcel should send it off.

        Gradients that are read where they lie are still in the cache of the core that made them, and once they have
        been sent, one round of messages is all that is left to wait for; unless the parcel travels densely.
        """
        return self.takes_loose and not parcel.dense

    @property
    def settles_early(self) -> bool:
        """True if the memory may be told what was sent before anything has come back."""
        return bool(getattr(self.compressor, "settles_early", False))

    @property
    def remembers(self) -> bool:
        """True if something is kept of what was not sent."""
        return self.recipe.up[0].keeps

    @property
    def seat(self) -> Seat:
        """The rule in whose place the user's optimizer sits."""
        seat = self.recipe.local if self.recipe.local.yours else self.recipe.center
        assert isinstance(seat, Seat)
        return seat

    @property
    def sends_ahead(self) -> bool:
        """True if what is sent is known before the forward pass, so that the exchange can run beside all of it."""
        return not self.early and self.collective and self.plain

    @property
    def clips_first(self) -> bool:
        """True if gradients must be clipped before they leave, because they are remembered or applied one by one."""
        return self.early and (self.remembers or not self.collective)

    @property
    def scale(self) -> float:
        """The weight of this worker's contribution to a sum of all; centres and peers weigh by themselves."""
        alone = self.recipe.exchange.pattern in ("server", "memory", "peers", "nobody")
        return 1.0 if alone else self.recipe.center.weigh(0, self.world.size)

    def _equip(self, parcel: Parcel) -> None:
        spec = parcel.x.spec
        parcel.x.may_be_few = self.early and self.takes_loose
        if self.group.speaks and not (self.plain and self.collective):
            parcel.kept = self.compressor.init(spec)
        if self.group.speaks and self.recipe.exchange.pattern == "owners":
            me = self.group.outer.index(self.world.rank)
            memory, codec = self.recipe.down
            parcel.kept_down = Composed(memory, codec).init(spec.cut(len(self.group.outer))[me][1])
        if self.recipe.send.needs_center:
            parcel.center = Bucket.zeros(spec)
            self._copy_weights(parcel, parcel.center)
        parcel.rule_state = self.recipe.center.init(spec)

    @torch.no_grad()
    def recenter(self) -> None:
        """The centre is where the worker is: after weights were set from outside."""
        for parcel in self.parcels:
            if parcel.center is not None:
                self._copy_weights(parcel, parcel.center)

    @torch.no_grad()
    def fill(self, parcel: Parcel) -> None:
        """Put what a local recipe sends into the bucket."""
        for name, weight in parcel.tensors.items():
            center = parcel.center[name] if parcel.center is not None else None
            self.recipe.send.fill_(parcel.x[name], weight.detach(), center, self.scale)

    @torch.no_grad()
    def adopt(self, parcel: Parcel, at: At) -> None:
        """Move the centre by what came back, and the worker after it."""
        shared = parcel.center if parcel.center is not None else parcel.x
        if self.recipe.adopt.looks == "after":
            self.recipe.center.step_(shared, parcel.x, parcel.rule_state, at)
        for name, weight in parcel.tensors.items():
            self.recipe.adopt.adopt_(weight, shared[name], at)
        if self.recipe.adopt.looks == "before":
            self.recipe.center.step_(shared, parcel.x, parcel.rule_state, at)

    def owed(self) -> Iterator[tuple[str, torch.Tensor]]:
        """What the memories of this lane still owe, by tensor."""
        for parcel in self.parcels:
            if parcel.kept is not None:
                yield from self.recipe.up[0].owed(parcel.kept.memory).items()

    @staticmethod
    @torch.no_grad()
    def _copy_weights(parcel: Parcel, into: Bucket) -> None:
        for name, weight in parcel.tensors.items():
            into[name].copy_(weight)


def lay_out(
    recipe: AnyRecipe, tensors: Mapping[str, nn.Parameter], world: World, clock: int, before: Sequence[Lane]
) -> list[Lane]:
    """The lanes of a recipe at a step. Lanes that were there before stay; what others still owe is paid by the next."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    left = {(lane.leaf, tuple(lane.tensors)): lane for lane in before}
    lanes = []
    for number, (leaf, names) in enumerate(resolve(recipe, shapes, clock)):
        kept = left.pop((leaf, names), None)
        own = {name: tensors[name] for name in names}
        lanes.append(kept or Lane(leaf, own, world, label=f"{leaf.recipe.name}.{number}"))
    debts = {name: owed for lane in left.values() for name, owed in lane.owed()}
    for parcel in (parcel for lane in lanes for parcel in lane.parcels):
        parcel.debts = {name: debts[name].clone() for name in parcel.tensors if name in debts}
    return lanes
