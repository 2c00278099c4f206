"""Samples held in memory and picked many at a time.

A loader asks for one sample after another and stacks them, which costs more than the training step of a small network.
A data set that has ``__getitems__`` is asked for all samples of a batch at once, and ``collate_fn=collate`` hands them
on as they are:

    DataLoader(data.train, batch_size=64, shuffle=True, collate_fn=collate)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset, default_collate

from tightwire.data.augment import AUGMENTS, AugmentName

Sample: TypeAlias = tuple[Tensor, Tensor]


class Rows(Dataset[Sample], ABC):
    """A data set that gives whole batches: ``batch`` is all that an implementation writes."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, index_B: Tensor) -> Sample:
        """The inputs and labels of these samples, stacked."""

    def __getitem__(self, index: int) -> Sample:
        x_B, y_B = self.batch(torch.tensor([range(len(self))[index]]))
        return x_B[0], y_B[0]

    def __getitems__(self, indices: Sequence[int]) -> Picked:
        return Picked(*self.batch(torch.as_tensor(indices)))


class Picked(Sequence[Sample]):
    """The samples of a batch: a sequence of them for those who want one, and the batch itself for `collate`."""

    def __init__(self, x_B: Tensor, y_B: Tensor) -> None:
        self.batch = [x_B, y_B]

    def __len__(self) -> int:
        return len(self.batch[0])

    def __getitem__(self, index: Any) -> Any:
        return self.batch[0][index], self.batch[1][index]

    def __iter__(self) -> Iterator[Sample]:
        return zip(self.batch[0].unbind(), self.batch[1].unbind(), strict=True)


def collate(samples: Any) -> Any:
    """A loader's ``collate_fn``: torch's own, but a batch that is whole already stays so."""
    return samples.batch if isinstance(samples, Picked) else default_collate(samples)


class Samples(Rows):
    """Inputs with a label each; with ``moments``, bytes that become (x − mean) / std only when they are picked."""

    def __init__(
        self,
        x: Tensor,
        labels: Tensor,
        *,
        moments: tuple[Tensor, Tensor] | None = None,
        augment: AugmentName = "none",
    ) -> None:
        self.x = x
        self.labels = labels
        self._moments = moments
        self._augment: AugmentName = augment
        self._labels = labels.to(x.device)

    def __len__(self) -> int:
        return len(self.labels)

    def on(self, device: str | torch.device) -> Samples:
        """The same, held on a device: there they are picked, normalised and augmented. ``labels`` stay where they are.

        Images that a processor prepares one batch after another keep a GPU waiting longer than a small network does.
        """
        scale = None if self._moments is None else (self._moments[0].to(device), self._moments[1].to(device))
        return Samples(self.x.to(device), self.labels, moments=scale, augment=self._augment)

    def batch(self, index_B: Tensor) -> Sample:
        """The inputs and labels of these samples, normalised, then augmented."""
        index_B = index_B.to(self.x.device)
        x_B = self.x[index_B]
        if self._moments is not None:
            mean, std = self._moments
            x_B = x_B.float().sub_(mean).div_(std)
        augment = AUGMENTS[self._augment]
        return (x_B if augment is None else augment(x_B, None)), self._labels[index_B]


def labels_of(dataset: Dataset[Any]) -> Tensor:
    """The labels of all samples: at once where the data set keeps them, else one by one."""
    samples: Any = dataset
    if isinstance(samples, Subset):
        return labels_of(samples.dataset)[torch.as_tensor(samples.indices)]
    if isinstance(samples, TensorDataset):
        return samples.tensors[-1]
    for kept in ("labels", "targets"):
        if hasattr(samples, kept):
            return torch.as_tensor(getattr(samples, kept))
    return torch.stack([torch.as_tensor(samples[index][1]) for index in range(len(samples))])
