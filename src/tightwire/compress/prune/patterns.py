"""In which groups weights are pruned: a pattern gives every group a score, and turns kept groups into a mask.

    fine      one weight                      vector   a few neighbours in a row
    kernel    all of one k×k plane            filter   everything that makes one output
    block     any sides; 0 = the whole side   n of m   the n largest of every m along the inputs (2:4)

The score of a group is the mean of |w| over it, as in Mao, Han, Pool, Li, Liu, Wang, Dally: Exploring the Granularity
of Sparsity in Convolutional Neural Networks. CVPR workshops 2017, arXiv 1705.08922. Groups at an edge may be smaller.
N of m: Mishra et al.: Accelerating Sparse Deep Neural Networks. arXiv 2104.08378.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from tightwire.compress.errors import CompressError

NEVER = -1.0  # the score of a group that no density may keep


class Pattern(Protocol):
    """Groups of weights that are kept or pruned together."""

    def scores(self, weight: Tensor) -> Tensor:
        """One number a group, the larger the more it matters; `NEVER` for what the pattern forbids."""

    def sizes(self, weight: Tensor) -> Tensor:
        """How many weights each group has, in the shape of the scores."""

    def expand(self, kept: Tensor, weight: Tensor) -> Tensor:
        """The mask of the weights, from that of the groups."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of weights; ``sides`` belong to the last dimensions of a weight, 0 is a whole dimension.

    From dimension ``whole_from`` on a block is as long as the weight, whatever the sides say.

    >>> weight = torch.tensor([[4.0, 2.0, 0.0, 1.0]])
    >>> vectors(2).scores(weight)
    tensor([[3.0000, 0.5000]])
    >>> vectors(2).expand(torch.tensor([[True, False]]), weight)
    tensor([[ True,  True, False, False]])
    """

    sides: tuple[int, ...] = ()
    whole_from: int | None = None

    def __post_init__(self) -> None:
        """Refuse sides that are no lengths."""
        if any(side < 0 for side in self.sides):
            raise CompressError(f"block sides {self.sides} must be at least 1, or 0 for a whole dimension")

    def scores(self, weight: Tensor) -> Tensor:
        """The mean of |w| over each block."""
        return self._sums(weight.detach().abs().float()) / self.sizes(weight)

    def sizes(self, weight: Tensor) -> Tensor:
        """The number of weights of each block."""
        return self._sums(torch.ones_like(weight, dtype=torch.float32))

    def expand(self, kept: Tensor, weight: Tensor) -> Tensor:
        """Each block's choice, repeated over it."""
        mask = kept
        for dim, side in enumerate(self._fit(weight.shape)):
            mask = mask.repeat_interleave(side, dim)
        return mask[tuple(slice(length) for length in weight.shape)].clone()

    def _fit(self, shape: torch.Size) -> list[int]:
        """The block's sides in every dimension of a weight."""
        asked = (1,) * (len(shape) - len(self.sides)) + self.sides[max(0, len(self.sides) - len(shape)) :]
        fitted = [max(1, min(side or length, length)) for side, length in zip(asked, shape, strict=True)]
        if self.whole_from is None:
            return fitted
        return fitted[: self.whole_from] + [max(1, length) for length in shape[self.whole_from :]]

    def _sums(self, weight: Tensor) -> Tensor:
        sides = self._fit(weight.shape)
        margins = [margin for length, side in zip(weight.shape, sides, strict=True) for margin in (-length % side, 0)]
        padded = F.pad(weight, margins[::-1])
        cut = [part for length, side in zip(padded.shape, sides, strict=True) for part in (length // side, side)]
        return padded.reshape(cut).sum(tuple(range(1, len(cut), 2)))


@dataclass(frozen=True)
class NOfM:
    """Of every ``m`` neighbours along the inputs of an output, at most the ``n`` largest."""

    n: int = 2
    m: int = 4

    def scores(self, weight: Tensor) -> Tensor:
        """|w| for the n largest of each m, `NEVER` for the others."""
        rows = weight.detach().abs().float().reshape(weight.shape[0], -1)
        padded = F.pad(rows, (0, -rows.shape[1] % self.m), value=NEVER)
        of_m = padded.reshape(len(rows), -1, self.m)
        rank = of_m.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
        chosen = torch.where(rank < self.n, of_m, NEVER)
        return chosen.reshape(padded.shape)[:, : rows.shape[1]].reshape(weight.shape)

    def sizes(self, weight: Tensor) -> Tensor:
        """Every group is one weight."""
        return torch.ones_like(weight, dtype=torch.float32)

    def expand(self, kept: Tensor, weight: Tensor) -> Tensor:
        """The mask itself."""
        return kept


def fine() -> Blocks:
    """Every weight for itself."""
    return Blocks()


def vectors(length: int = 4) -> Blocks:
    """So many neighbours along the last dimension; in a convolution at most a row of its kernel."""
    return block(length)


def kernels() -> Blocks:
    """The k×k weights between one input channel and one output channel; in a linear layer, one weight."""
    return Blocks(whole_from=2)


def filters() -> Blocks:
    """All weights of one output."""
    return Blocks(whole_from=1)


def block(*sides: int) -> Blocks:
    """Blocks of these sides along the last dimensions."""
    return Blocks(sides)


def n_of_m(n: int = 2, m: int = 4) -> NOfM:
    """At most ``n`` of every ``m`` along the inputs: 2:4 is what sparse tensor cores take."""
    if not 1 <= n <= m:
        raise CompressError(f"{n} of {m}: keep at least 1 and at most {m}")
    return NOfM(n, m)
