"""Numbers in fewer bytes: full, half, or a sign and one of 127 levels of a logarithmic scale.

    |x̂| = lo·(hi/lo)^((level − 1)/126),   lo and hi the least and largest magnitude of a tensor, both sent

What a number loses here is in the `Sent` of the codec that uses it, so a memory feeds it back. The logarithmic scale
rounds every number by the same *ratio*: by 2% where magnitudes span a factor of 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError, RecipeError

Width = Literal["float32", "float16", "log8"]
_NBYTES: dict[Width, int] = {"float32": 4, "float16": 2, "log8": 1}
_TOP = 126


@dataclass(frozen=True)
class Levels:
    """Numbers of several groups (tensors) in a width.

    >>> Levels("log8", groups=2).nbytes(100), Levels("float16").nbytes(100)
    (116, 200)
    """

    width: Width
    groups: int = 1

    def __post_init__(self) -> None:
        if self.width not in get_args(Width):
            raise RecipeError(f"values={self.width!r}: numbers travel as {', '.join(get_args(Width))}")

    @property
    def each_nbytes(self) -> int:
        """Bytes a number."""
        return _NBYTES[self.width]

    @property
    def scales_nbytes(self) -> int:
        """Bytes beside the numbers, unless there are none."""
        return 8 * self.groups if self.width == "log8" else 0

    def nbytes(self, count: int) -> int:
        """Bytes of ``count`` numbers."""
        return self.each_nbytes * count + self.scales_nbytes if count else 0

    def write(self, value_K: Tensor, group_K: Tensor) -> tuple[Tensor, Tensor]:
        """Bytes, and the float32 numbers that they stand for."""
        value_K = value_K.float()
        match self.width:
            case "float32":
                return value_K.view(torch.uint8), value_K
            case "float16":
                half_K = value_K.clamp(-65504, 65504).half()
                return half_K.view(torch.uint8), half_K.float()
            case "log8":
                return self._write_log(value_K, group_K)

    def read(self, byte_B: Tensor, group_K: Tensor) -> Tensor:
        """The float32 numbers that bytes stand for."""
        match self.width:
            case "float32":
                return byte_B.view(torch.float32)
            case "float16":
                return byte_B.view(torch.float16).float()
            case "log8":
                if not byte_B.numel():
                    return byte_B.float()
                scale_G2 = byte_B[: self.scales_nbytes].view(torch.float32).view(-1, 2)
                return _values(byte_B[self.scales_nbytes :], group_K, tables(scale_G2)[0])

    def _write_log(self, value_K: Tensor, group_K: Tensor) -> tuple[Tensor, Tensor]:
        if not value_K.numel():
            return value_K.view(torch.uint8), value_K
        size_K = value_K.abs()
        some_K = size_K > 0
        ends = value_K.new_zeros(self.groups), value_K.new_full((self.groups,), float("inf"))
        high_G = ends[0].scatter_reduce(0, group_K, size_K, "amax")
        low_G = ends[1].scatter_reduce(0, group_K, torch.where(some_K, size_K, float("inf")), "amin").minimum(high_G)
        scale_G2 = torch.stack([low_G, high_G], 1)
        table_GL, between_GL = tables(scale_G2)
        place_K = _place(size_K, group_K, scale_G2, between_GL)
        code_K = torch.where(some_K, place_K + 1, 0).to(torch.uint8) | ((value_K < 0).to(torch.uint8) << 7)
        wire = torch.cat([scale_G2.view(torch.uint8).flatten(), code_K])
        return wire, _values(code_K, group_K, table_GL)


def _place(size_K: Tensor, group_K: Tensor, scale_G2: Tensor, between_GL: Tensor) -> Tensor:
    """The nearest level on the logarithmic scale: the logarithm guesses, the edges between levels decide."""
    low_G, high_G = scale_G2.double().unbind(1)
    step_K = (torch.log2(high_G / low_G) / _TOP)[group_K]
    guess_K = torch.where(step_K > 0, torch.log2(size_K.double() / low_G[group_K]) / step_K, 0.0).nan_to_num_(0.0)
    place_K = guess_K.round().clamp_(0, _TOP).long()
    place_K -= (size_K <= between_GL[group_K, place_K]).long()
    return place_K + (size_K > between_GL[group_K, place_K + 1]).long()


def tables(scale_G2: Tensor) -> tuple[Tensor, Tensor]:
    """The magnitude of each code (0 and 127 levels) and the edges below each level and above the last, by group.

    In double precision: the same bits on any machine that reads the same bytes.
    """
    low_G, high_G = scale_G2.double().unbind(1)
    if not bool(((low_G >= 0) & (low_G <= high_G) & high_G.isfinite()).all()):
        raise PayloadError("a scale of numbers that is none: its ends are not finite, or not in order")
    ratio_G = torch.where(low_G > 0, torch.log2(high_G / low_G), 0.0) / _TOP
    step_L = torch.arange(-1, _TOP + 1, dtype=torch.float64, device=scale_G2.device)
    table_GL = (low_G[:, None] * torch.exp2(ratio_G[:, None] * step_L)).float()
    table_GL[:, 0] = 0.0
    level_GL = table_GL[:, 1:].double()
    end_G1 = torch.full_like(level_GL[:, :1], float("inf"))
    return table_GL, torch.cat([-end_G1, (level_GL[:, 1:] * level_GL[:, :-1]).sqrt().float(), end_G1], 1)


def _values(code_K: Tensor, group_K: Tensor, table_GL: Tensor) -> Tensor:
    size_K = table_GL[group_K, (code_K & 127).long()]
    return torch.where(code_K > 127, -size_K, size_K)
