"""What a shard holds; everything it knows, as plain values by tensor name; and a shard made to know it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from tightwire.algebra.schedule import Meta
from tightwire.algebra.tensors import Bucket

if TYPE_CHECKING:
    from tightwire.server.shard import Shard


@dataclass(eq=False)
class Held:
    """A contribution that came: decoded, and what its push asked for."""

    meta: Meta
    values: dict[str, Bucket]
    rates: tuple[float, ...] = ()
    unused: frozenset[str] = frozenset()
    sequence: int = 0
    pull: bool = True
    looks: Literal["before", "after"] = "after"


def state_of(shard: Shard) -> dict[str, Any]:
    """What a checkpoint keeps. Who waits for a reply is not part of it: they ask again."""
    return {
        "center": _by_name(shard.center),
        "mover": deepcopy(shard.mover.state()),
        "version": shard.version,
        "clocks": dict(shard.clocks),
        "offsets": dict(shard.offsets),
        "taken": dict(shard.taken),
        "held": [_held_state(held) for held in shard.held],
        "given": {worker: _named(shard, read) for worker, read in shard.given.items()},
        "staleness": dict(shard.staleness),
        "dropped": shard.dropped,
    }


def everything_of(shard: Shard) -> dict[str, Any]:
    """What another server needs to take this one's place: a checkpoint's state, and who waits for what."""
    return state_of(shard) | {
        "resting": sorted(shard.resting),
        "waiting": [_held_state(early) for early in shard.waiting],
        "parked": [{"meta": dict(vars(meta)), "dropped": dropped} for meta, dropped in shard.parked],
        "before": {worker: dict(wires) for worker, wires in shard.before.items()},
    }


def restore_everything(shard: Shard, state: dict[str, Any]) -> None:
    """Make a shard the very image of another."""
    restore(shard, state, new_world=False)
    shard.resting = set(state["resting"])
    shard.waiting = [_held(shard, early) for early in state["waiting"]]
    shard.parked = [(Meta(**entry["meta"]), entry["dropped"]) for entry in state["parked"]]
    shard.before = {worker: dict(wires) for worker, wires in state["before"].items()}


def restore(shard: Shard, state: dict[str, Any], *, new_world: bool) -> None:
    """Make a shard know what a state says. In a new world all workers it has are level with the slowest of before."""
    _copy_by_name(shard.center, state["center"])
    shard.mover.restore(deepcopy(state["mover"]))
    shard.version, shard.dropped = state["version"], state["dropped"]
    shard.staleness = Counter(state["staleness"])
    level = min(state["clocks"].values(), default=0)
    shard.clocks = dict.fromkeys(shard.clocks, level) if new_world else dict(state["clocks"])
    shard.offsets = {} if new_world else dict(state["offsets"])
    shard.taken = {} if new_world else {worker: tuple(last) for worker, last in state["taken"].items()}
    shard.waiting, shard.parked, shard.before = [], [], {}
    shard.resting &= set(shard.clocks)  # who waits somewhere else now does so whatever was saved
    shard.given = {} if new_world else {worker: _flat(shard, read) for worker, read in state["given"].items()}
    shard.held = [_held(shard, held) for held in state["held"]]


def _held_state(held: Held) -> dict[str, Any]:
    return {
        "meta": dict(vars(held.meta)),
        "values": _by_name(held.values),
        "rates": held.rates,
        "unused": sorted(held.unused),
        "asked": [held.sequence, held.pull, held.looks],
    }


def _held(shard: Shard, state: dict[str, Any]) -> Held:
    values = {label: Bucket.zeros(bucket.spec) for label, bucket in shard.center.items()}
    _copy_by_name(values, state["values"])
    asked = state.get("asked", ())  # older checkpoints hold only what came and waits for nothing
    return Held(Meta(**state["meta"]), values, tuple(state["rates"]), frozenset(state["unused"]), *asked)


def _named(shard: Shard, read: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return _by_name({label: Bucket(flat, shard.center[label].spec) for label, flat in read.items()})


def _flat(shard: Shard, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    buckets = {label: Bucket.zeros(bucket.spec) for label, bucket in shard.center.items()}
    _copy_by_name(buckets, named)
    return {label: bucket.flat for label, bucket in buckets.items()}


def _by_name(buckets: Mapping[str, Bucket]) -> dict[str, Tensor]:
    return {name: view.clone() for bucket in buckets.values() for name, view in bucket.items()}


def _copy_by_name(buckets: Mapping[str, Bucket], tensors: Mapping[str, Tensor]) -> None:
    for bucket in buckets.values():
        for name, view in bucket.items():
            view.copy_(tensors[name])
