"""The largest coefficients of a discrete cosine transform of every chunk: DeMo's codec.

    X (h×w chunk of a matrix);   Y = D_h·X·D_wᵀ,   D_n[k, i] = √(2/n)·cos(π(2i + 1)k / 2n),  row 0 divided by √2
    send the ``keep`` largest |Y| of each chunk;   X̂ = D_hᵀ·Ŷ·D_w

Peng, Quesnelle, Kingma: DeMo: Decoupled Momentum Optimization. arXiv 2411.19870, 2024 (chunks of 64×64, keep 32).
D is orthonormal, so the largest coefficients hold the most energy that so many numbers can. A tensor of more dimensions
is the matrix of its rows, one of fewer a single row. Rows and columns are cut as evenly as they go into chunks of at
most ``chunk``, and short chunks are filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import pi
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from tightwire.algebra.codec import Combines, DenseSent, Encoded, Payload, one_round
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Segment, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.picks import Block, Picks, Values, pick


@dataclass(frozen=True)
class Grid:
    """How the matrix of a tensor is cut: ``down``×``across`` chunks of ``height``×``width``."""

    rows: int
    columns: int
    height: int
    width: int

    @property
    def down(self) -> int:
        """Chunks under each other."""
        return -(-self.rows // self.height)

    @property
    def across(self) -> int:
        """Chunks beside each other."""
        return -(-self.columns // self.width)

    def chunks(self, flat: Tensor) -> Tensor:
        """The tensor as chunks (down·across, height, width), in float32."""
        fill = (0, self.across * self.width - self.columns, 0, self.down * self.height - self.rows)
        padded = F.pad(flat.view(self.rows, self.columns).float(), fill)
        cut = padded.view(self.down, self.height, self.across, self.width).transpose(1, 2)
        return cut.reshape(-1, self.height, self.width).contiguous()

    def join(self, chunk_BHW: Tensor) -> Tensor:
        """The reverse of `chunks`: a flat tensor."""
        cut = chunk_BHW.view(self.down, self.across, self.height, self.width).transpose(1, 2)
        padded = cut.reshape(self.down * self.height, self.across * self.width)
        return padded[: self.rows, : self.columns].reshape(-1)


@dataclass(frozen=True)
class Dct:
    """Send the strongest frequencies of each chunk.

    >>> Dct().capacity(Spec.pack([("w", (128, 64))]), At())
    224
    """

    keep: int = 32
    chunk: int = 64
    values: Values = "bfloat16"
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.keep < 1 or not 1 <= self.chunk <= 256:
            raise RecipeError(
                f"dct(keep={self.keep}, chunk={self.chunk}): keep at least 1 of a chunk of 1 to 256 rows and columns"
            )
        Picks(self.values, self.chunk**2)

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Transform, pick in each chunk, write; what was sent is what comes back of it."""
        blocks = self._blocks(x.spec)
        index, picked = [], []
        for (s, grid), b in zip(self._grids(x.spec), blocks, strict=True):
            chunk_BHW = grid.chunks(x.flat[s.offset : s.offset + s.numel])
            value_BC = _transform(chunk_BHW, grid).view(b.chunks, b.size)
            index.append(pick(value_BC.abs(), b.kept))
            picked.append(value_BC.gather(1, index[-1]))
        wire, rounded = Picks(self.values, self.chunk**2).write(index, picked, x.flat.device)
        sent = Bucket.zeros(x.spec)
        self._add_(sent, index, rounded)
        return Encoded(Payload(wire), DenseSent(sent.flat))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Transform back, and add."""
        index, values = Picks(self.values, self.chunk**2).read(payload, self._blocks(out.spec), "cosine")
        self._add_(out, index, values)

    def capacity(self, spec: Spec, at: At) -> int:
        """Always the same: every chunk sends as many."""
        return Picks(self.values, self.chunk**2).nbytes(self._blocks(spec))

    def _add_(self, out: Bucket, index: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        for (s, grid), b, index_BK, value_BK in zip(
            self._grids(out.spec), self._blocks(out.spec), index, values, strict=True
        ):
            value_BC = value_BK.new_zeros(b.chunks, b.size).scatter_(1, index_BK, value_BK)
            chunk_BHW = _back(value_BC.view(-1, grid.height, grid.width), grid)
            out.flat[s.offset : s.offset + s.numel] += grid.join(chunk_BHW).to(out.flat.dtype)

    def _grids(self, spec: Spec) -> list[tuple[Segment, Grid]]:
        return [
            (s, Grid(s.rows, s.row_numel, _even(s.rows, self.chunk), _even(s.row_numel, self.chunk)))
            for s in spec.segments
            if s.numel
        ]

    def _blocks(self, spec: Spec) -> list[Block]:
        blocks, first = [], 0
        for _, grid in self._grids(spec):
            size = grid.height * grid.width
            blocks.append(Block(first, grid.down * grid.across, size, min(self.keep, size)))
            first += blocks[-1].chunks * size
        return blocks


def _even(numel: int, most: int) -> int:
    """The length of pieces that are as equal as can be, and at most ``most`` long."""
    return -(-numel // -(-numel // most))


def _transform(chunk_BHW: Tensor, grid: Grid) -> Tensor:
    down, across = (basis(n, chunk_BHW.device) for n in (grid.height, grid.width))
    return down @ chunk_BHW @ across.T


def _back(chunk_BHW: Tensor, grid: Grid) -> Tensor:
    down, across = (basis(n, chunk_BHW.device) for n in (grid.height, grid.width))
    return down.T @ chunk_BHW @ across


@lru_cache(maxsize=512)
def basis(numel: int, device: torch.device) -> Tensor:
    """The orthonormal cosine basis, a row for each frequency.

    >>> torch.allclose(basis(5, torch.device("cpu")) @ basis(5, torch.device("cpu")).T, torch.eye(5), atol=1e-6)
    True
    """
    place = torch.arange(numel, dtype=torch.float64)
    rows: Tensor = torch.cos(pi / (2 * numel) * (2 * place + 1) * place[:, None]) * (2 / numel) ** 0.5
    rows[0] /= 2**0.5
    return rows.float().to(device)


def dct(keep: int = 32, *, chunk: int = 64, values: Values = "bfloat16") -> Dct:
    """Send the ``keep`` largest cosine coefficients of every ``chunk``×``chunk`` elements."""
    return Dct(keep, chunk, values)


examples = (dct(), dct(3, chunk=4), dct(16, chunk=4, values="float32"), dct(2, chunk=5, values="two-bit"))
