"""A communication hook for `DistributedDataParallel`: one line in a script that has DDP already.

    ddp.register_comm_hook(*tw.ddp_hook(tw.recipes.powersgd()))

DDP cuts gradients into buckets of its own, and cuts them anew after the first step. Ours stay as they are: what DDP
hands over goes into the parcels that `join` would have made, by name, so memories never notice (`run.ddp_state`).
"""

# No `from __future__ import annotations`: DDP compares the annotations of the hook with the classes themselves.
import hashlib
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from tightwire.algebra.check import check
from tightwire.algebra.errors import JoinError, RecipeError
from tightwire.algebra.link import Link
from tightwire.algebra.recipe import AnyRecipe, describe, leaves
from tightwire.links.shaped import ShapedLink
from tightwire.links.torchdist import TorchDistLink
from tightwire.rules.yours import yours
from tightwire.run.assembly import Assembly
from tightwire.run.ddp_state import HookState
from tightwire.run.settings import Settings
from tightwire.run.transport import Entry, Transport


def hook(state: HookState, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
    """What DDP calls for every bucket, in order."""
    return state.take(bucket)


def ddp_hook(
    recipe: AnyRecipe,
    *,
    model: DistributedDataParallel | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    settings: Settings | None = None,
) -> tuple[HookState, Callable[..., Future[Tensor]]]:
    """State and hook for ``ddp.register_comm_hook(*ddp_hook(recipe))``; all processes call it together.

    ``model`` is found by itself when DDP first runs forward, unless it is compiled. With ``optimizer`` a momentum
    that would act twice is refused, and parts see its learning rate.
    """
    settings = settings or Settings()
    check(recipe)
    _check_fits(recipe)
    if not dist.is_initialized():
        raise JoinError("torch.distributed is not open yet; call init_process_group() before tw.ddp_hook(…)")
    link: Link = TorchDistLink.connect()
    if settings.pace is not None:
        link = ShapedLink(link, settings.pace)
    state = HookState(recipe, link, settings, optimizer)
    _agree(recipe, Assembly(Transport(link, state.ledger, settings.exchange_timeout_s), _no_server))
    if model is not None:
        state.meet(model)
    else:
        _watch_for_model(state)
    return state, hook


def _check_fits(recipe: AnyRecipe) -> None:
    """Refuse recipes that need more than gradients: DDP moves nothing else, and your script steps the optimizer."""
    for r in (leaf.recipe for leaf in leaves(recipe)):
        if r.send.when != "backward" or r.exchange.pattern not in ("reduce", "gather", "owners"):
            raise RecipeError(
                f"{r.name}: DDP hands over gradients for a collective, but this recipe has send={r.send} and "
                f"exchange={r.exchange}; use tw.join(recipe, model, optimizer) without DDP"
            )
        if r.center != yours():
            raise RecipeError(
                f"{r.name}: center={r.center} has a say in your optimizer's step, which a DDP script takes by itself; "
                "use tw.join(recipe, model, optimizer) without DDP"
            )


def _agree(recipe: AnyRecipe, assembly: Assembly) -> None:
    digest = hashlib.sha256(describe(recipe).encode()).digest()
    odd = [rank for rank, said in enumerate(assembly.everyones(digest, Entry("setup", "agree"))) if said != digest]
    if odd:
        raise JoinError(f"rank {odd[0]} has another recipe in its hook than this one; give all processes the same")


def _no_server() -> None:
    """There is nobody to step aside for."""


def _watch_for_model(state: HookState) -> None:
    """Let the DDP model that holds ``state`` introduce itself: DDP does not tell its hook who calls."""

    def seen(module: nn.Module, _: object) -> None:
        if isinstance(module, DistributedDataParallel) and any(held is state for _, held in module._comm_hooks):
            handle.remove()
            state.meet(module)

    handle = register_module_forward_pre_hook(seen)
