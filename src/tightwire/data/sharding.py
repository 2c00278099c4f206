"""A training set dealt out to workers: shuffled, or sorted so that each sees only some of the classes.

Sorted shards tell methods that communicate from those that only seem to: on shuffled shards workers that never talk
learn nearly as well, on sorted ones they cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import torch
from torch.utils.data import Dataset, Sampler, Subset

from tightwire.data.errors import DataError, at_least_one, one_of
from tightwire.data.rows import labels_of

How: TypeAlias = Literal["shuffled", "sorted"]


def shards(dataset: Dataset[Any], workers: int, how: How = "shuffled", *, seed: int = 0) -> list[Subset[Any]]:
    """The samples of each worker: all of them, each once; sizes differ by one at most.

    ``sorted`` orders by label (within a label as they come) and cuts; ``shuffled`` orders at random.

    >>> from torch.utils.data import TensorDataset
    >>> labels = torch.tensor([1, 0, 1, 0])
    >>> [part.indices for part in shards(TensorDataset(labels, labels), 2, "sorted")]
    [[1, 3], [0, 2]]
    """
    at_least_one(workers=workers)
    one_of("how", how, ("shuffled", "sorted"))
    count = len(dataset)  # type: ignore[arg-type]
    if count < workers:
        raise DataError(f"{count} samples cannot be dealt out to {workers} workers; use fewer")
    if how == "sorted":
        labels = labels_of(dataset)
        if labels.ndim != 1:
            raise DataError(f"sorted shards need one class a sample; these labels have shape {tuple(labels.shape[1:])}")
        order = labels.argsort(stable=True)
    else:
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return [Subset(dataset, part.tolist()) for part in order.tensor_split(workers)]


class OwnShards(Sampler[int]):
    """An order of the whole data set in which `wire.shard` gives each worker samples of its own shard only.

    A loader with this sampler and ``batch_size=batch`` is cut into global batches of P·batch; part r of each is drawn
    from shard r, in a new order every epoch. In a last batch with fewer samples than workers some see a foreign one.

    >>> labels = torch.tensor([0, 1, 0, 1, 0, 1])
    >>> parts = shards(torch.utils.data.TensorDataset(labels, labels), 2, "sorted")
    >>> [int(labels[index]) for index in OwnShards(parts, 2)]
    [0, 0, 1, 1, 0, 1]
    """

    def __init__(self, parts: Sequence[Subset[Any]], batch: int) -> None:
        at_least_one(batch=batch)
        self._parts = [torch.as_tensor(part.indices) for part in parts]
        self._batch = batch

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[int]:
        shuffled = [part[torch.randperm(len(part))] for part in self._parts]
        whole = min(map(len, shuffled)) // self._batch * self._batch
        edges = [*range(0, whole + 1, self._batch), max(map(len, shuffled))]
        for begin, end in pairwise(edges):
            for part in shuffled:
                yield from part[begin:end].tolist()
