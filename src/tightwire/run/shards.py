"""The shards of a lane's server: made from the weights that the lane's worker has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tightwire.algebra.codec import Codec
from tightwire.algebra.recipe import Leaf, Recipe, Ways
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At, World
from tightwire.codecs.dense import dense
from tightwire.run.lane import Lane
from tightwire.run.parcel import Parcel
from tightwire.run.ranges import cut
from tightwire.server.movers import OptimizerMover, RuleMover
from tightwire.server.reshard import reshard
from tightwire.server.shard import Shard


def down_of(recipe: Recipe) -> Codec:
    """In which bytes the centre comes back."""
    return recipe.codec.down if isinstance(recipe.codec, Ways) else dense()


def groups_of(leaf: Leaf, world: World) -> list[tuple[int, ...]]:
    """The groups that a leaf's inner tier makes of a world, each its members' ranks."""
    labels = leaf.by(world) if leaf.by is not None else range(world.size)
    groups: dict[object, list[int]] = {}
    for rank, label in enumerate(labels):
        groups.setdefault(label, []).append(rank)
    return [tuple(members) for members in groups.values()]


def make_shard(lane: Lane, optimizer: torch.optim.Optimizer, at: At, *, piece: int, pieces: int) -> Shard:
    """The ``piece``-th of ``pieces`` ranges of rows; the user's optimizer moves it, or a rule of ours."""
    center = {parcel.label: cut(_copy(parcel), pieces)[piece] for parcel in lane.parcels}
    rule = lane.recipe.center
    names: dict[Tensor, str] = {weight: name for parcel in lane.parcels for name, weight in parcel.tensors.items()}
    mover = (
        OptimizerMover(center, optimizer, names, lane.seat)
        if rule.yours
        else RuleMover(rule, {label: rule.init(bucket.spec) for label, bucket in center.items()}, at)
    )
    members = dict.fromkeys(lane.group.outer, at.step)
    up, down = lane.recipe.up[1], down_of(lane.recipe)
    return Shard(center, rule, mover, lane.recipe.schedule, up, down, at, clocks=members)


def refitted(
    lane: Lane, own: dict[str, Any], shards: list[dict[str, Any]], *, pieces: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A worker's own counts and the states of all shards, for so many ``pieces``, however many were saved."""
    if len(shards) == pieces:
        return own, shards
    cuts = [cut(parcel.x, pieces) for parcel in lane.parcels]
    fitted = reshard(shards, [[s for part in cuts for s in part[piece].spec.segments] for piece in range(pieces)])
    counts = {"versions": [state["version"] for state in fitted], "read": [min(own["read"])] * pieces}
    return {**own, **counts}, fitted


def _copy(parcel: Parcel) -> Bucket:
    bucket = Bucket.zeros(parcel.x.spec)
    for name, weight in parcel.tensors.items():
        bucket[name].copy_(weight.detach())
    return bucket
