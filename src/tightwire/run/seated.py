"""Workers take their seats in a split model: which posts each has, and what it owns of the answer.

A worker that keeps some columns of a layer trains a parameter of its own that lies in the memory of the whole one. It
takes the whole one's place in your optimizer, so that a step costs what the columns cost.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tightwire.algebra.compressor import Composed
from tightwire.algebra.errors import JoinError
from tightwire.algebra.recipe import leaves
from tightwire.algebra.split import Split
from tightwire.run.ferry import Ferry
from tightwire.run.pipeline import Pipeline, Runs
from tightwire.run.posts import Columns, Layers, Post
from tightwire.run.trick import Trick
from tightwire.run.twins import Twins
from tightwire.run.worker import Worker
from tightwire.splits.interleaved import TORCH, Interleaved
from tightwire.splits.stages import Seating, seating_of
from tightwire.splits.trick import WeirdTrick
from tightwire.splits.wide import column, edges_of


def take_seats(model: nn.Module, split: Split, worker: Worker) -> tuple[Runs, list[list[Tensor]]]:
    """This worker's part of a split model, and what each rank owns."""
    me, device = worker.link.world.rank, next(model.parameters()).device
    recipe = next(leaf.recipe for leaf in leaves(worker.recipe) if leaf.recipe.split is split)
    _check_compensation(split, worker.optimizer)
    ferry = Ferry(worker.transport, Composed(*recipe.up), device, worker.settings.seed)
    if isinstance(split, WeirdTrick):
        return _trick(model, split, worker, ferry)
    seating = seating_of(model, split)
    base = me - me % seating.workers  # the first rank of this replica
    owned = [_owned(seating, rank) for rank in range(seating.workers)]  # by the first replica: all have the same
    if isinstance(split, Interleaved) and worker.link.wire_device is not None:
        from tightwire.run.pipelining import TorchPipeline  # noqa: PLC0415 -- few need it, and it loads much of torch

        return TorchPipeline(TORCH[split.order], seating, split, worker.transport, device), owned
    posts: list[Post] = []
    for stage in range(split.stages):
        if me - base not in seating.owners(stage):
            continue
        before = None if stage == 0 else base + seating.owners(stage - 1)[0]
        if seating.columns and stage == split.stages - 1:
            posts.append(_columns(seating, base, ferry, worker))
        else:
            after = [base + owner for owner in seating.owners(stage + 1)] if stage < split.stages - 1 else []
            posts.append(Layers(stage, seating.stage(stage), split, ferry, worker.optimizer, before, after))
    twins = Twins.of(worker.transport, split.cut.replicas, worker.settings.step_timeout_s)
    return Pipeline(posts, split, ferry, worker.optimizer, twins), owned


def _trick(model: nn.Module, split: WeirdTrick, worker: Worker, ferry: Ferry) -> tuple[Trick, list[list[Tensor]]]:
    """Convolutions are everybody's, so the first rank tells them; units are their owner's."""
    trick = Trick(model, split, worker, ferry)
    owned: list[list[Tensor]] = [[] for _ in range(split.workers)]
    owned[0] += [*trick.before.parameters(), *trick.before.buffers()]
    for whole, part, edges in zip(trick.whole, trick.parts, trick.edges, strict=True):
        for ours, theirs in zip(part.parameters(), whole.parameters(), strict=True):
            _replace(worker, theirs, ours)
            for rank, (first, end) in enumerate(edges):
                owned[rank].append(theirs.detach()[first:end])
    return trick, owned


def _columns(seating: Seating, base: int, ferry: Ferry, worker: Worker) -> Columns:
    last, me = seating.stages - 1, worker.link.world.rank - base
    whole = seating.layers[-1]
    assert isinstance(whole, nn.Linear)
    first, end = edges_of(seating.columns)[me]
    part = column(whole, first, end)
    for ours, theirs in zip(part.parameters(), whole.parameters(), strict=True):
        _replace(worker, theirs, ours)
    others = [base + owner for owner in seating.owners(last) if owner != me]
    return Columns(last, part, first, ferry, base + seating.owners(last - 1)[0], others)


def _replace(worker: Worker, whole: nn.Parameter, part: nn.Parameter) -> None:
    """Train the part in place of the whole."""
    if worker.optimizer.state.get(whole):
        raise JoinError(
            "the optimizer has stepped before join(), and its state belongs to the whole last layer; join first, or "
            "use wide=0"
        )
    for group in worker.optimizer.param_groups:
        group["params"] = [part if parameter is whole else parameter for parameter in group["params"]]
    for name, parameter in worker.tensors.items():
        if parameter is whole:
            worker.tensors[name] = part


def _owned(seating: Seating, rank: int) -> list[Tensor]:
    """What of the model is this rank's: what it tells the others when the answer is put together."""
    mine: list[Tensor] = []
    for stage in range(seating.stages):
        if rank not in seating.owners(stage):
            continue
        module = seating.stage(stage)
        if seating.columns and stage == seating.stages - 1:
            first, end = edges_of(seating.columns)[rank]
            mine += [parameter.detach()[first:end] for parameter in module.parameters()]
        else:
            mine += [*module.parameters(), *module.buffers()]
    return mine


def _check_compensation(split: Split, optimizer: torch.optim.Optimizer) -> None:
    if split.compensation == "none" or isinstance(optimizer, torch.optim.SGD):
        return
    raise JoinError(
        f"compensation={split.compensation!r} is made for the steps of SGD, and the optimizer is "
        f"{type(optimizer).__name__}; use torch.optim.SGD, or compensation='none'"
    )
