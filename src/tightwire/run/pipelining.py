"""Stages run by `torch.distributed.pipelining`: its schedules with several stages a worker, behind `wire.batch`.

    rank r of n, v stages each     stages r, r+n, …, r+(v−1)n

A batch is cut into microbatches of one size; their gradients are averaged, as torch does (``scale_grads``), so the
update is that of the whole batch. Messages are torch's own, and the ledger does not see them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class

from tightwire.algebra.errors import UsageError
from tightwire.algebra.split import Split
from tightwire.run.posts import LossFn, Passed
from tightwire.run.transport import Transport
from tightwire.splits.stages import Seating


class TorchPipeline:
    """This worker's stages under one of torch's schedules."""

    whole_batches = True  # all workers are given the same ones
    waited_s = 0.0
    busy = False

    def __init__(self, name: str, seating: Seating, split: Split, transport: Transport, device: torch.device) -> None:
        self.split = split
        self.trace: list[Passed] = []  # there are no versions
        self._name = name
        self._transport = transport
        self._device = device
        self._rank, self._size = transport.link.world.rank, transport.link.world.size
        self._mine = list(range(self._rank, split.stages, self._size))
        self._modules = [seating.stage(stage) for stage in self._mine]
        self._schedule: PipelineScheduleMulti | None = None
        self._made_for: tuple[Any, ...] = ()

    def feed(self, x: Any, y: Any, loss_fn: LossFn) -> Tensor | None:
        """All microbatches of one batch, there and back; the loss, on the worker of the last stage."""
        pieces = self.split.microbatches
        if not isinstance(x, Tensor) or len(x) % pieces:
            raise UsageError(
                f"a batch of {len(x) if isinstance(x, Tensor) else type(x).__name__} cannot be cut into {pieces} equal "
                f"microbatches, which torch's schedules need; use drop_last=True and a multiple of {pieces}"
            )
        schedule = self._schedule_for(x, loss_fn)
        last = self._mine[-1] == self.split.stages - 1
        losses: list[Tensor] = []
        given = (x,) if self._mine[0] == 0 else ()
        told = {"target": y, "losses": losses} if last else {}
        schedule.step(*given, return_outputs=False, **told)
        return torch.stack([loss.detach() for loss in losses]).mean() if losses else None

    def _schedule_for(self, x: Tensor, loss_fn: LossFn) -> PipelineScheduleMulti:
        """The schedule; made anew when shapes or loss change, because torch fixes both."""
        key = (tuple(x.shape), loss_fn)
        if self._schedule is None or self._made_for != key:
            stages = [
                PipelineStage(module, stage, self.split.stages, self._device)
                for stage, module in zip(self._mine, self._modules, strict=True)
            ]
            made = get_schedule_class(self._name)
            self._schedule = made(stages, self.split.microbatches, loss_fn=loss_fn)
            self._made_for = key
        assert self._schedule is not None
        return self._schedule

    def drain(self) -> Tensor | None:
        """Nothing is ever in flight between batches."""
        return None

    def settle(self) -> None:
        """Nothing is ever in flight between batches."""
