"""Weights in one memory: laid there when a phase begins, taken out when it ends.

before   every worker has its own copy, all equal
during   every parameter is a view of memory that all workers see; each optimizer writes to it, without locks
after    everybody has stopped; every worker takes its own copy again

A centre in one memory, beside weights of each worker's own, is `run.commons`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tightwire.algebra.errors import JoinError
from tightwire.algebra.exchange import OneMemory
from tightwire.algebra.world import World
from tightwire.run.lane import Lane
from tightwire.run.transport import Entry

if TYPE_CHECKING:
    from tightwire.run.worker import Worker

_ENTRY = Entry("setup", "one memory")


def lanes_in_one_memory(worker: Worker) -> list[Lane]:
    """The lanes whose weights all workers share."""
    return [lane for lane in worker.lanes if isinstance(lane.recipe.exchange, OneMemory)]


def share_weights(worker: Worker) -> None:
    """Lay the weights of lanes that want it into one memory; those that lie there already stay."""
    for lane in lanes_in_one_memory(worker):
        if lane.label not in worker.in_one_memory:
            refuse_what_cannot(worker.link.world, lane)
            kinds: dict[torch.dtype, list[nn.Parameter]] = {}
            for tensor in lane.tensors.values():
                kinds.setdefault(tensor.dtype, []).append(tensor)
            for dtype, tensors in kinds.items():
                _lay(worker, f"{lane.label} {dtype}", tensors)
            worker.in_one_memory.add(lane.label)


@torch.no_grad()
def _lay(worker: Worker, name: str, tensors: list[nn.Parameter]) -> None:
    memory = worker.link.share(name, sum(t.numel() for t in tensors), tensors[0].dtype)
    views = [piece.view(t.shape) for piece, t in zip(memory.split([t.numel() for t in tensors]), tensors, strict=True)]
    if worker.link.world.rank == 0:
        for view, tensor in zip(views, tensors, strict=True):
            view.copy_(tensor)
    worker.assembly.everyones(b"", _ENTRY)  # nobody steps before the weights are there
    for view, tensor in zip(views, tensors, strict=True):
        tensor.data = view


@torch.no_grad()
def take_own_copies(worker: Worker) -> None:
    """Everybody has stopped: every worker takes a copy of its own, all equal."""
    mine = lanes_in_one_memory(worker)
    if mine:
        worker.assembly.everyones(b"", _ENTRY)  # every step is in before anybody copies
        for lane in mine:
            for tensor in lane.tensors.values():
                tensor.data = tensor.data.clone()
        worker.assembly.everyones(b"", _ENTRY)  # everybody has copied before anybody writes
        worker.in_one_memory.clear()


def own(worker: Worker, tensors: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Copies of the tensors that are this worker's alone."""
    places = {t.data_ptr() for lane in lanes_in_one_memory(worker) for t in lane.tensors.values()}
    return {name: t.detach().clone() for name, t in tensors if t.data_ptr() not in places}


def refuse_what_cannot(world: World, lane: Lane) -> None:
    """One memory needs one machine, and tensors that lie in it."""
    if len(set(world.hosts)) > 1:
        raise JoinError(
            f"{lane.recipe.name} needs all workers on one machine, and there are {len(set(world.hosts))}; between "
            "machines use asgd() or downpour()"
        )
    away = next((name for name, t in lane.tensors.items() if t.device.type != "cpu"), None)
    if away is not None:
        raise JoinError(f"{away} is not in the machine's own memory; {lane.recipe.name} needs a model on the CPU")
