"""The end of a phase with a server: everybody's steps are in its centre, and everybody goes on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tightwire.algebra.recipe import resolve
from tightwire.run.transport import Entry

if TYPE_CHECKING:
    from tightwire.run.worker import Worker


@torch.no_grad()
def part_from_servers(worker: Worker) -> None:
    """Leave the servers that the phase beginning now does not have, and take their centres along."""
    shapes = {name: tuple(tensor.shape) for name, tensor in worker.tensors.items()}
    stay = set(resolve(worker.recipe, shapes, worker.clock))
    ended = [c for c in worker.clients.values() if (c.lane.leaf, tuple(c.lane.tensors)) not in stay]
    if not ended:
        return
    worker.assembly.everyones(b"", Entry("setup", "phase"))  # every push is in before anybody looks
    for client in ended:
        for name, center in client.center(worker.at()).items():
            client.lane.tensors[name].copy_(center)
        client.leave()
