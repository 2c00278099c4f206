"""The answer: what the recipe's result *is*. The centre or the mean of the workers, never a lucky worker.

    gradients exchanged     the weights every rank holds
    averaging               the mean of all workers' weights now
    a kept centre           the centre
    a server                the centre, pulled
    one memory              the weights as they are, once everybody has stopped
    a split model           every stage's layers, from their owners

Buffers (batch-norm statistics) follow the recipe's policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from tightwire.algebra.recipe import Buffers
from tightwire.run.assembly import Assembly
from tightwire.run.lane import Lane
from tightwire.run.transport import Entry
from tightwire.run.worker import Worker

_ENTRY = Entry("answer", "answer")


@torch.no_grad()
def bring_answer(worker: Worker, model: nn.Module, stages: Sequence[Sequence[Tensor]]) -> None:
    """Put the answer into the model, all ranks together; ``stages[r]`` is what rank r owns of a split model."""
    if worker.in_one_memory:
        worker.assembly.everyones(b"", _ENTRY)  # every step is in before anybody looks
    for lane in worker.lanes:
        _bring_lane(worker, lane)
    for owner, owned in enumerate(stages):
        worker.assembly.broadcast_(owned, _ENTRY, root=owner)
    if not stages:
        share_buffers(model, worker.lanes[0].recipe.buffers, worker.assembly)


def _bring_lane(worker: Worker, lane: Lane) -> None:
    if lane.label in worker.clients:
        worker.assembly.everyones(b"", _ENTRY)  # every push is in before anybody looks
        if worker.link.world.rank == 0:
            for name, center in worker.clients[lane.label].center(worker.at()).items():
                lane.tensors[name].copy_(center)
        worker.assembly.broadcast_(lane.tensors.values(), _ENTRY)
    elif lane.recipe.send.needs_center:
        for parcel in lane.parcels:
            assert parcel.center is not None
            for name, tensor in parcel.tensors.items():
                tensor.copy_(parcel.center[name])
    elif not lane.early and lane.collective:
        worker.assembly.mean_(lane.tensors.values(), _ENTRY)


def share_buffers(model: nn.Module, policy: Buffers, assembly: Assembly) -> None:
    """Make buffers what the recipe says they are in the answer."""
    if policy == "local":
        return
    floating = [b for b in model.buffers() if b.is_floating_point()]
    whole = [b for b in model.buffers() if not b.is_floating_point()]
    if policy == "average":
        assembly.mean_(floating, _ENTRY)
    assembly.broadcast_(whole if policy == "average" else [*floating, *whole], _ENTRY)


@torch.no_grad()
def recalibrate(model: nn.Module, batches: Iterable[object], assembly: Assembly) -> None:
    """Compute batch-norm statistics anew for the weights as they are: averaged weights do not fit averaged statistics.

    Each batch's first element (or the batch itself) is run through the model in training mode; every norm takes the
    plain mean over all batches of all ranks.
    """
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    if not norms:
        return
    was_training, momenta = model.training, [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
    model.train()
    try:
        for batch in batches:
            model(batch[0] if isinstance(batch, tuple | list) else batch)
    finally:
        model.train(was_training)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    statistics = [s for norm in norms for s in (norm.running_mean, norm.running_var) if s is not None]
    assembly.mean_(statistics, _ENTRY)
