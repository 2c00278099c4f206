"""Filters taken out for good: smaller layers, and everything that depends on them made smaller with them.

A filter's output is read by the next layer, added to a shortcut, concatenated, normed: all of these lose the channel
together. Which they are is found by torch-pruning's dependency graph (Fang, Ma, Song, Mi, Wang: DepGraph: Towards Any
Structural Pruning. CVPR 2023, arXiv 2301.12900); the least important group is the one with the smallest norm of all its
weights together, over the whole network. What comes out is an ordinary dense model, faster on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.models.resnet import Block, Pad

_ROUNDS = 50  # small bites, so that the operations left come close to those wanted


@dataclass(frozen=True)
class Removed:
    """What a model was and is: multiply-adds for one example, and parameters."""

    operations_before: float
    operations: float
    parameters_before: int
    parameters: int

    @property
    def speed_bound(self) -> float:
        """How much faster the model would be if only multiply-adds counted."""
        return self.operations_before / self.operations


@torch.enable_grad()  # the graph is traced by autograd
def remove_filters(
    model: nn.Module,
    example: Tensor,
    *,
    operations: float,
    scope: Literal["network", "layer"] = "network",
    protect: Sequence[str] = (),
    multiple_of: int = 1,
) -> Removed:
    """Remove filters of ``model`` in place until ``operations`` (a share of the multiply-adds) are left.

    ``example`` is a batch to trace with. The layer that gives the answer keeps its outputs, and so do those named in
    ``protect``; ``scope="layer"`` takes the same share of every layer. Channels stay multiples of ``multiple_of``.
    """
    if not 0 < operations <= 1:
        raise CompressError(f"operations={operations}: give the share to keep, above 0 and at most 1")
    pruning = torch_pruning()
    before = pruning.utils.count_ops_and_params(model, example)
    kept = [*fixed_layers(model, example), *(_named(model, name) for name in protect)]
    pruner = pruning.pruner.BasePruner(
        model, example, importance=pruning.importance.GroupMagnitudeImportance(p=2),
        global_pruning=scope == "network", pruning_ratio=0.98, max_pruning_ratio=0.98,
        iterative_steps=_ROUNDS, ignored_layers=kept, round_to=None if multiple_of == 1 else multiple_of,
    )  # fmt: skip
    now = before
    for _ in range(_ROUNDS):
        if now[0] <= operations * before[0]:
            break
        pruner.step()
        now = pruning.utils.count_ops_and_params(model, example)
    if now[0] > operations * before[0]:
        raise CompressError(
            f"{now[0] / before[0]:.2f} of the operations are left where {operations} were wanted: too many layers are "
            "protected, or depend on those that are; keep more operations"
        )
    renew_(model)
    return Removed(float(before[0]), float(now[0]), int(before[1]), int(now[1]))


def renew_(model: nn.Module) -> None:
    """Parameters anew, as no graph has seen them.

    The dependency graph was traced with gradients, and its nodes bind parameters to the stream of that time: a step of
    training could then not be recorded (`compress.replay`).
    """
    new = {
        parameter: nn.Parameter(parameter.detach().clone(), parameter.requires_grad) for parameter in model.parameters()
    }
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            setattr(module, name, new[parameter])  # what was tied stays tied


def torch_pruning() -> Any:
    """The package, or a sentence that says how to get it."""
    try:
        return import_module("torch_pruning")
    except ImportError:
        raise CompressError(
            "removing filters needs torch-pruning, which is not installed; run: pip install torch-pruning"
        ) from None


def _named(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise CompressError(f"the model has no layer {name!r} to protect") from None


def fixed_layers(model: nn.Module, example: Tensor) -> list[nn.Module]:
    """Layers whose outputs must keep their number: the one that answers, and all that meet a zero-padded shortcut.

    Padding has no weights to take a channel from, so the channels that run along such shortcuts stay as they are.
    """
    ran: list[nn.Module] = []
    hooks = [
        layer.register_forward_hook(lambda module, *_: ran.append(module))
        for layer in model.modules()
        if isinstance(layer, nn.Linear | nn.modules.conv._ConvNd)
    ]
    try:
        with torch.no_grad():
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    return ran[-1:] + (_along_shortcuts(model) if any(isinstance(m, Pad) for m in model.modules()) else [])


def _along_shortcuts(model: nn.Module) -> list[nn.Module]:
    """Convolutions outside of residual blocks, and the last one in each."""
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    within = [[m for m in b.residual.modules() if isinstance(m, nn.Conv2d)] for b in blocks]
    inner = {id(convolution) for some in within for convolution in some[:-1]}
    return [m for m in model.modules() if isinstance(m, nn.Conv2d) and id(m) not in inner]
