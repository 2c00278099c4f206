"""The picks of chunks as bytes: a few numbers of each, and where in it they stood.

values      float32, bfloat16, or two bits: a sign, and whether |x| is at least the mean magnitude of its chunk's picks;
            x̂ = ±(the mean of its side), both means sent as bfloat16
positions   ⌈log₂ size⌉ bits each
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from tightwire.algebra.codec import Payload
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.codecs.codes import codes_nbytes, exactly, pack_codes, unpack_codes

Values = Literal["float32", "bfloat16", "two-bit"]
_BITS: dict[str, int] = {"float32": 32, "bfloat16": 16, "two-bit": 2}
_MEANS_NBYTES = 4  # two bfloat16 a chunk


@dataclass(frozen=True)
class Block:
    """``chunks`` chunks of ``size`` numbers from place ``offset`` on, of each of which ``kept`` are sent."""

    offset: int
    chunks: int
    size: int
    kept: int

    @property
    def picks(self) -> int:
        """How many are sent in all."""
        return self.chunks * self.kept


@dataclass(frozen=True)
class Picks:
    """Writes and reads the picks of blocks: values, then positions. ``places`` bounds the size of a chunk.

    >>> Picks("two-bit", 4096).nbytes([Block(0, 10, 4096, 82)])
    1475
    """

    values: Values
    places: int

    def __post_init__(self) -> None:
        if self.values not in get_args(Values):
            raise RecipeError(f"values={self.values!r}: numbers travel as {', '.join(get_args(Values))}")
        if not 1 <= self.places <= 1 << 16:
            raise RecipeError(
                f"chunks of {self.places} elements: a position has at most 16 bits; at most 65536 elements"
            )

    @property
    def width(self) -> int:
        """Bits of a position."""
        return max(1, (self.places - 1).bit_length())

    def nbytes(self, blocks: Sequence[Block]) -> int:
        """Bytes of all picks."""
        picks, chunks = sum(b.picks for b in blocks), sum(b.chunks for b in blocks)
        return self._values_nbytes(picks, chunks) + codes_nbytes(picks, self.width)

    def _values_nbytes(self, picks: int, chunks: int) -> int:
        means = _MEANS_NBYTES * chunks if self.values == "two-bit" else 0
        return means + -(-picks * _BITS[self.values] // 8)

    def write(
        self, index: Sequence[Tensor], value: Sequence[Tensor], device: torch.device
    ) -> tuple[Tensor, list[Tensor]]:
        """Bytes of positions ``index_BK`` and values ``value_BK`` of each block, and the values they stand for."""
        none = torch.empty(0, device=device)
        index_K = torch.cat([none.long(), *(index_BK.flatten() for index_BK in index)])
        parts: list[Tensor] = []
        rounded: list[Tensor] = list(value)
        match self.values:
            case "float32":
                parts.append(torch.cat([none, *(value_BK.flatten() for value_BK in value)]).view(torch.uint8))
            case "bfloat16":
                parts.append(torch.cat([none, *(v.flatten() for v in value)]).bfloat16().view(torch.uint8))
                rounded = [value_BK.bfloat16().float() for value_BK in value]
            case "two-bit":
                coded = [_two_bits(value_BK) for value_BK in value]
                means = torch.cat([none.bfloat16(), *(mean_B2.flatten() for mean_B2, _ in coded)])
                codes = torch.cat([none.to(torch.uint8), *(code_BK.flatten() for _, code_BK in coded)])
                parts += [means.view(torch.uint8), pack_codes(codes, 2)]
                rounded = [_from_two_bits(mean_B2, code_BK) for mean_B2, code_BK in coded]
        return torch.cat([*parts, pack_codes(index_K, self.width)]), rounded

    def read(self, payload: Payload, blocks: Sequence[Block], what: str) -> tuple[list[Tensor], list[Tensor]]:
        """Positions and values of each block; refuses positions that do not ascend inside their chunk."""
        wire = exactly(payload, self.nbytes(blocks), what)
        sizes, chunks = [b.picks for b in blocks], sum(b.chunks for b in blocks)
        end = self._values_nbytes(sum(sizes), chunks)
        index = [
            part.view(b.chunks, b.kept)
            for b, part in zip(
                blocks, unpack_codes(wire[end:], sum(sizes), self.width).long().split(sizes), strict=True
            )
        ]
        for b, index_BK in zip(blocks, index, strict=True):
            if bool((index_BK >= b.size).any()) or bool((index_BK.diff(dim=1) <= 0).any()):
                raise PayloadError(f"a {what} payload has positions that do not ascend below {b.size}")
        return index, self._read_values(wire[:end].clone(), blocks)

    def _read_values(self, byte_B: Tensor, blocks: Sequence[Block]) -> list[Tensor]:
        sizes = [b.picks for b in blocks]
        if self.values != "two-bit":
            dtype = torch.float32 if self.values == "float32" else torch.bfloat16
            flat = byte_B.view(dtype).float().split(sizes)
            return [part.view(b.chunks, b.kept) for b, part in zip(blocks, flat, strict=True)]
        end = _MEANS_NBYTES * sum(b.chunks for b in blocks)
        means = byte_B[:end].view(torch.bfloat16).view(-1, 2).split([b.chunks for b in blocks])
        codes = unpack_codes(byte_B[end:], sum(sizes), 2).split(sizes)
        return [
            _from_two_bits(mean_B2, code.view(b.chunks, b.kept))
            for b, mean_B2, code in zip(blocks, means, codes, strict=True)
        ]


def _two_bits(value_BK: Tensor) -> tuple[Tensor, Tensor]:
    """Means of the smaller and the larger magnitudes of each chunk, and codes: 1 for larger, 2 for negative."""
    size_BK = value_BK.abs()
    large_BK = size_BK >= size_BK.mean(1, keepdim=True)
    means = [(size_BK * side).sum(1) / side.sum(1).clamp(min=1) for side in (~large_BK, large_BK)]
    code_BK = large_BK.to(torch.uint8) | (value_BK < 0).to(torch.uint8) << 1
    return torch.stack(means, 1).bfloat16(), code_BK


def _from_two_bits(mean_B2: Tensor, code_BK: Tensor) -> Tensor:
    size_BK = mean_B2.float().gather(1, (code_BK & 1).long())
    return torch.where(code_BK > 1, -size_BK, size_BK)


def pick(size_BC: Tensor, kept: int) -> Tensor:
    """Ascending positions of the ``kept`` largest of each row."""
    if kept >= size_BC.shape[1]:
        return torch.arange(size_BC.shape[1], device=size_BC.device).expand(size_BC.shape[0], -1)
    return torch.topk(size_BC, kept, dim=1, sorted=False).indices.sort(1).values
