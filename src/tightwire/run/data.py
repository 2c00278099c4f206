"""A loader's batches, dealt out: `wire.shard(loader)`.

One order of samples for everybody, cut into global batches of P·b; rank r takes the r-th part of each:

    order  ├── rank 0 ──┼── rank 1 ──┤├── rank 0 ──┼── rank 1 ──┤├ r0 ┼ r1 ┤
           global batch 0             global batch 1             tail, dealt evenly

so P workers with batch b see exactly what one worker with batch P·b sees. Every rank gets the same number of batches.
In the tail parts may differ by one sample; a weight says by how much, so that the mean over ranks stays the mean over
samples. A tail with fewer samples than ranks is filled up from the beginning of the order.

The position is counted in samples of the global order, so a run can go on with another number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler, get_worker_info

from tightwire.algebra.errors import JoinError
from tightwire.algebra.exchange import part_edges
from tightwire.algebra.world import At, World

T = TypeVar("T")
_CARRIED = (
    "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
    "prefetch_factor", "persistent_workers", "pin_memory_device",
)  # fmt: skip


class Share(Generic[T]):
    """This worker's batches of a loader, epoch after epoch; knows where it is."""

    def __init__(
        self, loader: DataLoader[T], world: World, seed: int, drawn: Callable[[Share[T], float], None]
    ) -> None:
        self._loader = loader
        self._world = world
        self._seed = seed
        self._drawn = drawn  # called with the weight of each batch, just before it is handed out
        self._streams = isinstance(loader.dataset, IterableDataset)
        if self._streams and loader.batch_size is None:
            raise JoinError("a stream that makes its own batches (batch_size=None) cannot be dealt out; set batch_size")
        self._total = 0  # of an epoch, once it is known; a stream never knows
        self.epoch = 0
        self.consumed = 0  # samples (or batches of a stream) of this epoch, over all ranks
        self.seen = 0  # samples of all epochs, over all ranks, if all draw as many batches as this one

    def __len__(self) -> int:
        if self._streams:
            raise TypeError("a stream has no length")
        return len(self._plan(self._order(self.epoch), 0))

    def __iter__(self) -> Iterator[T]:
        """One epoch, from where it stands."""
        batches = self._stream_batches() if self._streams else self._indexed_batches()
        for weight, total, batch in batches:
            self.consumed += total
            self.seen += total * (self._world.size * (self._loader.batch_size or 1) if self._streams else 1)
            self._drawn(self, weight)
            yield batch
        self.epoch += 1
        self.consumed = 0

    @property
    def samples(self) -> int:
        """Samples of one epoch, over all ranks."""
        return sum(total for _, total in self._plan(self._order(self.epoch), 0))

    @property
    def epochs(self) -> float:
        """Epochs passed, with the fraction of the one under way where that is known."""
        return self.epoch + (min(1.0, self.consumed / self._total) if self._total else 0.0)

    def position(self) -> dict[str, int]:
        """What a checkpoint keeps."""
        return {"epoch": self.epoch, "consumed": self.consumed, "seen": self.seen}

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a checkpoint."""
        self.epoch, self.consumed, self.seen = position["epoch"], position["consumed"], position.get("seen", 0)

    # ── a data set with indices ───────────────────────────────────────────────────────────────────────────────────

    def _indexed_batches(self) -> Iterator[tuple[float, int, T]]:
        order = self._order(self.epoch)
        self._total = len(order)
        plan = self._plan(order, self.consumed)
        loader = _like(self._loader, batch_sampler=_Fixed([mine for mine, _ in plan]))
        for batch, (mine, total) in zip(loader, plan, strict=True):
            yield len(mine) * self._world.size / total, total, batch

    def _order(self, epoch: int) -> list[Any]:
        """The order of samples (or of ready-made batches) in an epoch: the same on every rank."""
        sampler = self._loader.sampler if self._loader.batch_size is not None else self._loader.batch_sampler
        if sampler is None:
            sampler = self._loader.sampler
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(At(step=epoch, seed=self._seed).key(shared=True, salt="order"))
            return list(sampler)

    def _plan(self, order: Sequence[Any], begin: int) -> list[tuple[Any, int]]:
        """(my part, samples of all parts) of each global batch from ``begin`` on."""
        rank, size, batch = self._world.rank, self._world.size, self._loader.batch_size
        if batch is None:  # ready-made batches are dealt out whole
            return [(order[i + rank], size) for i in range(begin, len(order) - size + 1, size)]
        plan = []
        for start in range(begin, len(order), batch * size):
            whole = list(order[start : start + batch * size])
            if len(whole) < batch * size and self._loader.drop_last:
                break
            whole += list(islice(cycle(order), max(0, size - len(whole))))
            edges = part_edges(len(whole), size)
            plan.append((whole[edges[rank] : edges[rank + 1]], len(whole)))
        return plan

    # ── a stream ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _stream_batches(self) -> Iterator[tuple[float, int, T]]:
        batch = self._loader.batch_size
        assert batch is not None
        part = _StreamPart(self._loader.dataset, self._world, batch, self._loader.drop_last, self.consumed)
        loader = _like(self._loader, dataset=part, batch_size=batch, drop_last=False)
        for mine in loader:
            yield 1.0, 1, mine


def _like(loader: DataLoader[T], **changes: Any) -> DataLoader[T]:
    carried = {name: getattr(loader, name) for name in _CARRIED}
    if not carried["pin_memory_device"]:
        del carried["pin_memory_device"]
    return DataLoader(**{"dataset": loader.dataset, **carried, **changes})


class _Fixed(Sampler[Any]):
    """Batches that were decided beforehand."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


class _StreamPart(IterableDataset[Any]):
    """This rank's samples of a stream that every rank reads: b of each P·b; of a tail, an equal share."""

    def __init__(self, stream: Any, world: World, batch: int, drop_last: bool, skip_batches: int) -> None:
        self._stream = stream
        self._world = world
        self._batch = batch
        self._drop_last = drop_last
        self._skip_batches = skip_batches

    def __iter__(self) -> Iterator[Any]:
        rank, size = self._world.rank, self._world.size
        samples = iter(self._stream)
        info = get_worker_info()  # each loader process yields every n-th batch
        skip = self._skip_batches if info is None else _every_nth(self._skip_batches, info.id, info.num_workers)
        for number in range(1 << 62):
            whole = list(islice(samples, self._batch * size))
            full = len(whole) == self._batch * size
            if not whole or (self._drop_last and not full):
                return
            each = len(whole) // size
            if number >= skip:
                yield from whole[rank * each : (rank + 1) * each]
            if not full:
                return


def _every_nth(count: int, first: int, step: int) -> int:
    """How many of the numbers below ``count`` are ``first``, ``first + step``, …

    >>> [_every_nth(5, worker, 2) for worker in (0, 1)]
    [3, 2]
    """
    return len(range(first, count, step))
