"""Replicated stages: the workers that keep the same layers on other data, and the mean of their gradients.

2 stages, 2 replicas      rank 0   stage 0 ─▶ rank 1   stage 1
                          rank 2   stage 0 ─▶ rank 3   stage 1        twins: 0 and 2, 1 and 3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tightwire.exchanges.allreduce import allreduce
from tightwire.run.transport import Entry, Transport

_ENTRY = Entry("exchange", "replicas")


@dataclass(frozen=True)
class Twins:
    """This worker and those that keep the same layers."""

    transport: Transport
    members: tuple[int, ...]
    timeout_s: float

    @classmethod
    def of(cls, transport: Transport, replicas: int, timeout_s: float) -> Twins:
        """All ranks call this together: native collectives among twins are prepared."""
        world = transport.link.world
        each = world.size // replicas
        groups = [tuple(range(first, world.size, each)) for first in range(each)]
        for group in groups if replicas > 1 else ():
            transport.link.prepare(group)
        return cls(transport, groups[world.rank % each], timeout_s)

    @torch.no_grad()
    def mean_(self, gradients: Sequence[Tensor]) -> None:
        """Replace gradients by their means over the twins."""
        if len(self.members) == 1 or not gradients:
            return
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients]).div_(len(self.members))
        self.transport.ledger.produced(flat.nbytes)
        job = self.transport.link.submit(lambda: self.transport.reduce_(flat, allreduce(), self.members, _ENTRY))
        job.wait(self.timeout_s)
        for piece, gradient in zip(flat.split([g.numel() for g in gradients]), gradients, strict=True):
            gradient.copy_(piece.view(gradient.shape))
