"""What a `.twz` file holds: which network, and its tensors, shared or plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError
from tightwire.compress.shared_weights import SharedWeights

Plain: TypeAlias = NDArray[np.float32] | NDArray[np.int64]
Tensor: TypeAlias = SharedWeights | Plain
PLAIN_TYPES = (np.dtype(np.float32), np.dtype(np.int64))


@dataclass(frozen=True)
class Architecture:
    """How to make the network: the arguments of `tightwire.models.make`."""

    name: str  # of the catalogue, or module:function of one's own
    inputs: tuple[int, ...]
    classes: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether making it runs somebody's function."""
        return ":" in self.name


@dataclass(frozen=True, eq=False)
class Artifact:
    """A compressed network. ``facts`` is what else is to be known (accuracy, seeds, …), as JSON has it."""

    tensors: Mapping[str, Tensor]  # by the names of the state dict
    architecture: Architecture | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse tensors that a file cannot hold."""
        for name, tensor in self.tensors.items():
            if not isinstance(tensor, SharedWeights) and tensor.dtype not in PLAIN_TYPES:
                raise CompressError(f"{name} is {tensor.dtype}; a file holds float32 and int64, so convert it")

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Every tensor, dense: what the network computes with, to the bit."""
        return {name: dense(tensor) for name, tensor in self.tensors.items()}

    @property
    def dense_nbytes(self) -> int:
        """Bytes of all tensors, uncompressed."""
        return sum(4 * t.numel if isinstance(t, SharedWeights) else t.nbytes for t in self.tensors.values())

    def same(self, other: Artifact) -> bool:
        """Whether everything is equal bit for bit."""
        mine, theirs = self.tensors, other.tensors
        return (
            list(mine) == list(theirs)
            and all(_same(mine[name], theirs[name]) for name in mine)
            and self.architecture == other.architecture
            and self.facts == other.facts
        )


def dense(tensor: Tensor) -> torch.Tensor:
    """A tensor as torch has it."""
    return tensor.dense() if isinstance(tensor, SharedWeights) else torch.from_numpy(tensor.copy())


def _same(mine: Tensor, theirs: Tensor) -> bool:
    if isinstance(mine, SharedWeights) or isinstance(theirs, SharedWeights):
        return isinstance(mine, SharedWeights) and isinstance(theirs, SharedWeights) and mine.same(theirs)
    return mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes()
