"""A worker's whole state: taken, and put back on the same or on another number of workers.

What a change of world must conserve:

    memories      the sum over workers of what is owed: old rank j's goes to new rank j mod P'
    answer        the mean of the workers' weights, or the centre: everybody starts from it
    data          the position in the global order of samples
    optimizer     old rank k mod P's state (equal on all ranks where gradients are exchanged)

Every other change is said in words, not made in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tightwire.algebra.memory import fold
from tightwire.algebra.tensors import Bucket, Segment, State, canonical
from tightwire.rules.yours import whole_name
from tightwire.run.lane import Lane
from tightwire.run.parcel import Parcel
from tightwire.run.transport import Entry
from tightwire.run.tree import rng_state, set_rng_state
from tightwire.run.worker import Worker


def worker_state(worker: Worker, model: nn.Module) -> dict[str, Any]:
    """Everything this rank needs to go on."""
    return {
        "clock": worker.clock,
        "epochs": worker.epochs,
        "weights": {canonical(name): tensor for name, tensor in model.state_dict().items()},
        "optimizer": worker.optimizer.state_dict(),
        "scaler": worker.scaling.state(),
        "lanes": lanes_state(worker.lanes),
        "clients": {label: client.state() for label, client in worker.clients.items()},
        "counts": dict(worker.counts),
        "rng": rng_state(),
        "ledger": worker.ledger.state(),
    }


def lanes_state(lanes: Sequence[Lane]) -> dict[str, dict[str, dict[str, Tensor]]]:
    """What the parcels of some lanes keep: kind → field → tensor name → tensor."""
    kinds: dict[str, dict[str, dict[str, Tensor]]] = {}
    for lane in lanes:
        for parcel in lane.parcels:
            for kind, state in parcel.states():
                for field, named in state.items():
                    kinds.setdefault(kind, {}).setdefault(field, {}).update(named)
            if parcel.debts:
                kinds.setdefault("debts", {}).setdefault("debts", {}).update(parcel.debts)
    return kinds


def restore_worker(worker: Worker, model: nn.Module, states: Sequence[dict[str, Any]]) -> list[str]:
    """Put this rank in the place it has among ``states`` of all old ranks; says what a change of world changed."""
    world = worker.link.world
    changed = len(states) != world.size
    mine = states[world.rank % len(states)]
    worker.clock, worker.epochs = mine["clock"], mine["epochs"]
    worker.lanes = []
    worker.build()
    _load_weights(model, _answer(worker, states) if changed else mine["weights"])
    worker.optimizer.load_state_dict(mine["optimizer"])
    worker.scaling.restore(mine["scaler"])
    for lane in worker.lanes:
        for parcel in lane.parcels:
            restore_parcel(lane, parcel, states, changed)
    _restore_counts(worker, states)
    if worker.clients:
        worker.assembly.everyones(b"built", Entry("setup", "restore"))  # nobody enters a server that was restored
    for label, client in worker.clients.items():
        client.restore(mine["clients"][label], states[0]["clients"][label]["shards"], new_world=changed)
    worker.finish()  # what was sent ahead before the weights were loaded
    worker.assembly.everyones(b"restored", Entry("setup", "restore"))  # nobody trains on before all are here
    worker.send_ahead()
    if not changed:
        set_rng_state(mine["rng"])
        worker.ledger.restore(mine["ledger"])
        return []
    return _changes(worker, len(states))


def _restore_counts(worker: Worker, states: Sequence[dict[str, Any]]) -> None:
    """Each rank stands for its own part of shared numbers, and for those of old ranks that are no more."""
    world = worker.link.world
    heirs = [state.get("counts", {}) for j, state in enumerate(states) if j % world.size == world.rank]
    for name in {name for counts in heirs for name in counts} | set(worker.counts):
        amount = sum(counts.get(name, 0) for counts in heirs) - worker.counts[name]
        worker.link.count(name, amount)
        worker.counts[name] += amount


def _answer(worker: Worker, states: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """The answer of the old world: what everybody starts from in the new one."""
    weights = dict(states[0]["weights"])
    for lane in worker.lanes:
        if lane.label in worker.clients:
            shards = states[0]["clients"][lane.label]["shards"]
            weights |= {name: _on_shards(name, shards) for name in lane.tensors}
        elif lane.recipe.send.needs_center:
            centers = states[0]["lanes"]["center"]["center"]
            weights |= {name: centers[name] for name in lane.tensors}
        elif not lane.early:
            for name in lane.tensors:
                weights[name] = torch.stack([state["weights"][name].float() for state in states]).mean(0)
    return weights


def _on_shards(name: str, shards: Sequence[dict[str, Any]]) -> Tensor:
    """One tensor of the centre: whole on one shard, or its rows on several."""
    pieces = [piece for shard in shards for key, piece in shard["center"].items() if whole_name(key) == name]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(weights[canonical(name)])


def restore_parcel(lane: Lane, parcel: Parcel, states: Sequence[dict[str, Any]], changed: bool) -> None:
    """Put a parcel's state in place, by tensor name, from those of all old ranks."""
    saved = [state["lanes"] for state in states]
    for kind, state in parcel.states():
        keepers = [old[kind] for old in saved if kind in old]
        if not keepers:
            continue
        match kind:
            case "memory":
                place = lane.group.outer.index(lane.world.rank)
                source = fold([_for_parcel(old, state) for old in keepers], place, len(lane.group.outer)) if changed \
                    else saved[lane.world.rank][kind]  # fmt: skip
            case "memory_down":
                source = {field: _rows(parcel, keepers, field) for field in state}
            case _:
                source = keepers[0] if changed else saved[lane.world.rank][kind]
        for field, named in state.items():
            for key, tensor in named.items():
                tensor.copy_(source[field][key])
    size, rank = lane.world.size, lane.world.rank
    heirs = [old for j, old in enumerate(saved) if j % size == rank]
    for debts in (old["debts"]["debts"] for old in heirs if "debts" in old):
        for name in parcel.tensors:
            if name in debts:
                parcel.debts[name] = parcel.debts.get(name, 0) + debts[name]


def _for_parcel(old: Mapping[str, Mapping[str, Tensor]], state: State) -> State:
    return {field: {key: old[field][key] for key in named} for field, named in state.items()}


def _rows(parcel: Parcel, keepers: Sequence[Mapping[str, Mapping[str, Tensor]]], field: str) -> dict[str, Tensor]:
    """An owner's rows, found among all old owners' pieces of the same tensors."""
    assert parcel.kept_down is not None
    bucket = parcel.kept_down.memory[field]
    assert isinstance(bucket, Bucket)
    return {segment.key: _assemble(segment, keepers, field) for segment in bucket.spec.segments}


def _assemble(segment: Segment, keepers: Sequence[Mapping[str, Mapping[str, Tensor]]], field: str) -> Tensor:
    out = torch.zeros(segment.shape)
    rows = out.view(segment.rows, -1)
    for old in keepers:
        for key, tensor in old[field].items():
            name, _, first = key.partition("@")
            if name != segment.name:
                continue
            offset = int(first or 0) - segment.first_row
            piece = tensor.reshape(-1, rows.shape[1])
            lo, hi = max(0, offset), min(segment.rows, offset + piece.shape[0])
            if lo < hi:
                rows[lo:hi] = piece[lo - offset : hi - offset]
    return out


def _changes(worker: Worker, before: int) -> list[str]:
    now = worker.link.world.size
    said = [f"{before} workers are now {now}"]
    if any(lane.remembers for lane in worker.lanes):
        said.append(f"what rank j owed is now owed by rank j mod {now}; the sum over workers is the same")
    if any(not lane.early for lane in worker.lanes):
        said.append(f"all workers start from the answer the {before} workers had: their centre, or their mean")
    said.append(f"the optimizer state of rank k is that of old rank k mod {before}; random states start anew")
    said.append("the ledger counts from zero")
    return said
