"""The public three-line API.

    with tw.join(tw.recipes.dgc(), model, optimizer) as wire:
        for x, y in wire.shard(loader):
            loss_fn(model(x), y).backward()
            wire.step()

Under torchrun the environment says who we are; inside `together` the in-process world does; otherwise we are alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from tightwire.algebra.check import check
from tightwire.algebra.errors import JoinError
from tightwire.algebra.link import Link
from tightwire.algebra.recipe import AnyRecipe
from tightwire.links.access import Access
from tightwire.links.hosting import Away, Store
from tightwire.links.loop import LoopLink, LoopWorld
from tightwire.links.shaped import ShapedLink
from tightwire.links.torchdist import TorchDistLink
from tightwire.run.outer import Capture
from tightwire.run.refuse import check_model, check_optimizer, check_world, trainable
from tightwire.run.settings import Settings
from tightwire.run.together import current_link
from tightwire.run.wire import Wire
from tightwire.run.worker import Worker
from tightwire.server.wireform import WireForm


def join(
    recipe: AnyRecipe,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    scaler: torch.amp.GradScaler | None = None,
    settings: Settings | None = None,
) -> Wire:
    """Join the run that the environment describes, with this recipe for this model.

    All workers start from rank 0's weights. At the end of the ``with`` block the model is the recipe's answer.
    """
    settings = settings or Settings()
    check(recipe)
    check_model(model)
    tensors = trainable(model)
    check_optimizer(recipe, optimizer, tensors)
    link, at_end = _find_link(next(iter(tensors.values())).device, settings)
    ends = ExitStack()
    ends.callback(at_end)
    if settings.pace is not None:
        link = ShapedLink(link, settings.pace)
    try:
        check_world(recipe, link.world)
        worker = Worker(recipe, tensors, optimizer, link, settings, scaler)
        ends.callback(Capture(model, worker).remove)
        wire = Wire(worker, model, ends.close)
        wire.open()
    except BaseException:
        ends.close()
        raise
    return wire


def _find_link(device: torch.device, settings: Settings) -> tuple[Link, Callable[[], None]]:
    """The link that the surroundings offer, and what to do when it is no longer needed."""
    here = current_link()
    if here is not None:
        return here, _nothing
    if dist.is_initialized():
        return TorchDistLink.connect(WireForm(), settings.access, _chained), _nothing
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        backend = "nccl" if device.type == "cuda" and torch.cuda.device_count() >= _local_workers() else "gloo"
        _init_process_group(backend, settings)
        return TorchDistLink.connect(WireForm(), settings.access, _chained), dist.destroy_process_group
    return LoopLink(LoopWorld(1), 0), _nothing


def _chained(rank: int, store: Store, meeting: str, access: Access) -> Away:
    from tightwire.run.chained import Chained  # noqa: PLC0415 -- loads Arrow

    return Chained(rank, store, meeting, access)


def _init_process_group(backend: str, settings: Settings) -> None:
    """Open the process group that the environment describes.

    torch elastic keeps one store through restarts, and gloo would find the addresses of the dead in it: each attempt
    gets a room of its own.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    patience_s = settings.exchange_timeout_s
    try:
        store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=patience_s)))
    except (RuntimeError, ValueError) as error:
        raise JoinError(_why_not_met(str(error), patience_s)) from None
    room = PrefixStore(f"tightwire/{attempt}", store)
    timeout = timedelta(seconds=settings.step_timeout_s)
    dist.init_process_group(backend, store=room, rank=rank, world_size=size, timeout=timeout)


def _why_not_met(error: str, patience_s: float) -> str:
    where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    if "EADDRINUSE" in error or "address already in use" in error.lower():
        return f"{where} is in use by another program; choose another port (torchrun --master-port, MASTER_PORT)"
    if "expected" in error:
        return f"the environment is incomplete: {error.splitlines()[0]}; start with torchrun, or unset RANK"
    return (
        f"rank {os.environ['RANK']} could not meet the others at {where} within {patience_s:g} s; is rank 0 running "
        "there, and can its address be reached from here? (exchange_timeout_s)"
    )


def _nothing() -> None:
    """The process group is somebody else's."""


def _local_workers() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
