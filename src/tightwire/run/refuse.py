"""What cannot be joined, said before anything starts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tightwire.algebra.errors import JoinError
from tightwire.algebra.recipe import AnyRecipe, Recipe, leaves
from tightwire.algebra.rule import Sets
from tightwire.algebra.tensors import canonical
from tightwire.algebra.world import World
from tightwire.memories.residual import Residual


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by canonical name, each once; refuses what cannot be exchanged."""
    tensors: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise JoinError(f"{name} has no shape yet; run one batch through lazy modules before join()")
        if type(parameter).__name__ == "DTensor" or type(parameter.data).__name__ == "DTensor":
            raise JoinError(
                f"{name} is a DTensor: FSDP and tensor-parallel models shard their weights themselves; join() needs "
                "plain parameters"
            )
        if parameter.is_complex():
            raise JoinError(f"{name} is complex; store it as two real tensors (torch.view_as_real)")
        if parameter.is_meta:
            raise JoinError(f"{name} lies on the meta device; give it memory with model.to_empty(device=…) first")
        if parameter.requires_grad:
            if canonical(name) in tensors:
                raise JoinError(f"two parameters are called {canonical(name)!r}; rename one of the modules")
            tensors[canonical(name)] = parameter
    if not tensors:
        raise JoinError("no parameter of the model requires a gradient; there is nothing to train")
    return tensors


def check_model(model: nn.Module) -> None:
    """Refuse models that exchange by themselves."""
    if isinstance(model, DistributedDataParallel):
        raise JoinError("the model is wrapped in DistributedDataParallel, which exchanges by itself; join its .module")
    if any("FullyShardedDataParallel" in type(m).__name__ for m in model.modules()):
        raise JoinError("FSDP models shard their weights themselves; join() needs plain parameters")


def check_optimizer(recipe: AnyRecipe, optimizer: torch.optim.Optimizer, tensors: Mapping[str, nn.Parameter]) -> None:
    """Refuse optimizers that do not fit the model or the recipe."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise JoinError(
            "LBFGS evaluates the loss several times a step, which wire.step() cannot; use another optimizer"
        )
    ours = {id(p) for p in tensors.values()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and id(parameter) not in ours:
                raise JoinError(
                    f"the optimizer holds a parameter of shape {tuple(parameter.shape)} that is not in the model, so "
                    "it would drift apart between workers; put it into a module and join that"
                )
    for leaf in leaves(recipe):
        _check_momentum(leaf.recipe, optimizer)


def _check_momentum(recipe: Recipe, optimizer: torch.optim.Optimizer) -> None:
    seat = recipe.local if recipe.local.yours else recipe.center
    fixed = seat.settings if isinstance(seat, Sets) else {}
    missing = [key for key in fixed for group in optimizer.param_groups if key not in group]
    if missing:
        raise JoinError(
            f"{recipe.name} sets the {missing[0]} of your optimizer, and {type(optimizer).__name__} has none; use SGD"
        )
    own = _momentum(optimizer)
    repeated = max(float(group.get("momentum") or 0.0) for group in optimizer.param_groups)
    if repeated and isinstance(recipe.up[0], Residual) and recipe.up[0].alone:
        raise JoinError(
            f"{recipe.name} sends most gradients late, and {type(optimizer).__name__}'s momentum of {repeated:g} would "
            "repeat them; build the optimizer without momentum and with a larger rate, or use the recipe top-k, which "
            "is for optimizers with momentum"
        )
    where = {"in its memory": recipe.up[0].momentum, "in the seat of your optimizer": fixed.get("momentum", 0.0)}
    for place, carried in where.items():
        if carried and own:
            raise JoinError(
                f"momentum twice: {recipe.name} keeps {carried} {place} and {type(optimizer).__name__} has "
                f"{own} of its own; build the optimizer without momentum (SGD(momentum=0)), or the recipe with "
                "momentum=0"
            )


def _momentum(optimizer: torch.optim.Optimizer) -> float:
    """The momentum an optimizer applies, under any of its names."""
    found = 0.0
    for group in optimizer.param_groups:
        betas = group.get("betas")
        found = max(found, float(group.get("momentum") or 0.0), float(betas[0]) if betas else 0.0)
    return found


def check_world(recipe: AnyRecipe, world: World) -> None:
    """Refuse recipes that need another number of workers."""
    for leaf in leaves(recipe):
        split = leaf.recipe.split
        if split.stages > 1 and split.workers != world.size:
            raise JoinError(
                f"{leaf.recipe.name} cuts the model into {split.stages} stages and there are {world.size} workers; use "
                f"{split.workers} workers, one for each stage or for each share of a wide layer"
            )
        if leaf.recipe.exchange.pattern == "reduce":
            leaf.recipe.exchange.transfers(world)  # a grid that does not fit says so
