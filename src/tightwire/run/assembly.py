"""What all workers do together beside training: agree, average, broadcast, hear everybody.

Each call is one job, waited for. All ranks must make the same calls in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from tightwire.exchanges.allreduce import allreduce, tree
from tightwire.run.transport import Entry, Transport


class Assembly:
    """All workers of a run."""

    def __init__(self, transport: Transport, aside: Callable[[], None]) -> None:
        self._transport = transport
        self._aside = aside  # said before this worker waits for all others

    def max_(self, flat: Tensor, entry: Entry) -> None:
        """Replace a tensor by its maximum over ranks."""
        self._aside()
        self._run(lambda: self._transport.reduce_(flat, tree(), self._transport.everybody(), entry, "max"))

    @torch.no_grad()
    def mean_(self, tensors: Iterable[Tensor], entry: Entry) -> None:
        """Replace tensors by their means over ranks."""
        everybody = self._transport.everybody()
        self._aside()

        def average(flat: Tensor) -> None:
            flat.div_(len(everybody))
            self._transport.reduce_(flat, allreduce(), everybody, entry)

        self._each_kind(tensors, average)

    @torch.no_grad()
    def broadcast_(self, tensors: Iterable[Tensor], entry: Entry, root: int = 0) -> None:
        """Replace tensors by those of one rank."""
        members = (root, *(rank for rank in self._transport.everybody() if rank != root))
        self._each_kind(tensors, lambda flat: self._transport.broadcast_(flat, members, entry))

    def everyones(self, data: bytes, entry: Entry) -> list[bytes]:
        """What each rank says, in rank order."""
        wire = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        longest = torch.tensor([len(data)], dtype=torch.int64)
        self.max_(longest, entry)
        heard: list[Tensor] = []

        def gather() -> None:
            heard.extend(self._transport.gather(wire, self._transport.everybody(), int(longest), entry))

        self._run(gather)
        return [bytes(said.numpy()) for said in heard]

    def _each_kind(self, tensors: Iterable[Tensor], work: Callable[[Tensor], None]) -> None:
        kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for tensor in tensors:
            if tensor.numel():
                kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for group in kinds.values():
            self._packed(group, work)

    def _packed(self, group: Sequence[Tensor], work: Callable[[Tensor], None]) -> None:
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in group])
        self._run(lambda: work(flat))
        for piece, tensor in zip(flat.split([t.numel() for t in group]), group, strict=True):
            tensor.copy_(piece.view(tensor.shape))

    def _run(self, job: Callable[[], None]) -> None:
        self._transport.link.submit(job).wait(self._transport.timeout_s * 2)
