"""Top-k selection, positions as gaps, as in Deep Gradient Compression.

    kept_j = ⌈density · n_j⌉ positions of largest |x| in each tensor j
    wire   = values, then gaps:   6 bytes an element      values="float32", gaps="16bit"     the paper
                                  2.4 bytes at 0.001      values="log8",    gaps="rice"
           = values, then a bit for every place, where 16-bit gaps would take more: from a density of 1/16 on

Lin, Han, Mao, Wang, Dally: Deep Gradient Compression. ICLR 2018, arXiv 1712.01887.
Selection is per tensor; positions are coded over the whole bucket, so one message serves all its tensors. What values
lose in fewer bytes stays with the memory. Large tensors are selected in two steps, as in the paper: a threshold from a
sample, then an exact selection among those above it. The result is always exact, so there is nothing to truncate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, Encoded, Payload, SparseSent, one_round
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.knob import Knob, value_at
from tightwire.algebra.lengths import length_bytes, read_lengths
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.bitpack import gaps_from_index, index_from_gaps, most_gaps, pack_bits, unpack_bits
from tightwire.codecs.levels import Levels, Width
from tightwire.codecs.rice import index_from_rice, most_rice, rice_from_index

Gaps = Literal["16bit", "rice"]
Positions = Literal["16bit", "rice", "bits"]
_COUNT = torch.int32  # a Rice-coded payload says how many it holds
COUNT_NBYTES = _COUNT.itemsize
_BITS_FROM = 1 / 16  # the density from which on a bit for every place is less than 16 for every element
_SAMPLED_FROM = 1 << 16  # elements; smaller tensors are selected at once
_SAMPLE = 1 << 13
_SLACK = 1.3  # a sampled threshold aims at that many more than wanted


@dataclass(frozen=True)
class TopK:
    """Send the largest of each tensor.

    >>> [TopK(0.001, *how).capacity(Spec.pack([("w", (1000, 1000))]), At()) for how in ((), ("log8", "rice"))]
    [6090, 2508]
    """

    density: Knob
    values: Width = "float32"
    gaps: Gaps = "16bit"
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Levels(self.values)
        if self.gaps not in ("16bit", "rice"):
            raise RecipeError(f"gaps={self.gaps!r}: positions travel as 16bit or rice")
        if not callable(self.density):
            kept(1, self.density)

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    def positions(self, at: At) -> Positions:
        """How positions travel now: by the nominal density, so that everybody reads what everybody wrote."""
        return "bits" if self.gaps == "16bit" and value_at(self.density, at) >= _BITS_FROM else self.gaps

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Select, then write."""
        density = value_at(self.density, at)
        chosen = [s.offset + largest(flat, kept(s.numel, density)) for s, flat in x.segments()]
        index_K = torch.cat(chosen) if chosen else x.flat.new_empty(0, dtype=torch.int64)
        wire, value_K = self.write(index_K, x.flat[index_K], x.spec, at)
        return Encoded(Payload(wire), SparseSent(index_K, value_K.to(x.flat.dtype)))

    def write(self, index_K: Tensor, value_K: Tensor, spec: Spec, at: At) -> tuple[Tensor, Tensor]:
        """Ascending positions and their values as bytes, and the values that the bytes stand for."""
        if self.positions(at) == "16bit":
            return self._write_gaps(index_K, value_K, spec)
        levels = Levels(self.values, len(spec.segments))
        value_bytes, rounded_K = levels.write(value_K, tensor_of(index_K, spec, self.values))
        if self.positions(at) == "bits":
            kept_N = torch.zeros(spec.numel, dtype=torch.bool, device=index_K.device)
            kept_N[index_K] = True
            return torch.cat([value_bytes, pack_bits(kept_N)]), rounded_K
        count = length_bytes(index_K.numel(), _COUNT, index_K.device)
        return torch.cat([count, value_bytes, rice_from_index(index_K, spec.numel)]), rounded_K

    def _write_gaps(self, index_K: Tensor, value_K: Tensor, spec: Spec) -> tuple[Tensor, Tensor]:
        if not index_K.numel():
            return index_K.new_empty(0, dtype=torch.uint8), value_K.float()
        gap_T, value_T = gaps_from_index(index_K, value_K.float())
        index_T = index_K if len(gap_T) == len(index_K) else index_from_gaps(gap_T, spec.numel)
        levels = Levels(self.values, len(spec.segments))
        value_bytes, rounded_T = levels.write(value_T, tensor_of(index_T, spec, self.values))
        rounded_K = rounded_T if index_T is index_K else rounded_T[torch.searchsorted(index_T, index_K)]
        return torch.cat([value_bytes, gap_T.view(torch.uint8)]), rounded_K

    def read(self, wire: Tensor, spec: Spec, at: At) -> tuple[Tensor, Tensor]:
        """Positions and values; fillers are positions of value 0."""
        begin, end, count = self.frame(wire, spec, at)
        tail = wire[end:].clone()
        match self.positions(at):
            case "rice":
                index_T = index_from_rice(tail, count, spec.numel)
            case "16bit":
                index_T = index_from_gaps(tail.view(torch.int16), spec.numel)
            case "bits":
                index_T = torch.nonzero(unpack_bits(tail, 8 * tail.numel())).flatten()
                if index_T.numel() != count or (count and int(index_T[-1]) >= spec.numel):
                    raise PayloadError(f"bits mark {index_T.numel()} places of {spec.numel} where {count} belong")
        levels = Levels(self.values, len(spec.segments))
        return index_T, levels.read(wire[begin:end].clone(), tensor_of(index_T, spec, self.values))

    def frame(self, wire: Tensor, spec: Spec, at: At) -> tuple[int, int, int]:
        """Where the values of a payload begin and end, and how many they are; refuses what cannot be one."""
        levels, how = Levels(self.values, len(spec.segments)), self.positions(at)
        if how == "rice":
            (count,) = read_lengths([wire[:COUNT_NBYTES]], _COUNT)
            begin, end = COUNT_NBYTES, COUNT_NBYTES + levels.nbytes(max(0, count))
            if not 0 <= count <= spec.numel or end > wire.numel():
                raise PayloadError(f"a top-k payload of {wire.numel()} bytes cannot hold {count} elements")
            return begin, end, count
        fixed, each = (-(-spec.numel // 8), 0) if how == "bits" else (0, 2)
        count, odd = divmod(max(0, wire.numel() - fixed - levels.scales_nbytes), levels.each_nbytes + each)
        if odd or levels.nbytes(count) + each * count + fixed != wire.numel():
            raise PayloadError(f"a top-k payload of {wire.numel()} bytes is not a whole number of elements")
        return 0, levels.nbytes(count), count

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Add the values at their positions."""
        index_T, value_T = self.read(payload.wire, out.spec, at)
        out.flat.index_add_(0, index_T, value_T.to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """Selected elements, and what their gaps can need."""
        density = value_at(self.density, at)
        selected = sum(kept(s.numel, density) for s in spec.segments)
        levels = Levels(self.values, len(spec.segments))
        if self.positions(at) == "rice":
            return COUNT_NBYTES + levels.nbytes(selected) + most_rice(selected, spec.numel)
        if self.positions(at) == "bits":
            return levels.nbytes(selected) + -(-spec.numel // 8)
        most = most_gaps(selected, spec.numel)
        return levels.nbytes(most) + 2 * most


def tensor_of(index_K: Tensor, spec: Spec, width: Width) -> Tensor:
    """The number of the tensor that each position lies in, where numbers are scaled by tensor."""
    if width != "log8":
        return index_K
    end_S = torch.tensor([s.offset + s.numel for s in spec.segments], device=index_K.device)
    return torch.searchsorted(end_S, index_K, right=True)


def kept(numel: int, density: float) -> int:
    """How many of ``numel`` elements are selected: at least one of any tensor that has some.

    >>> kept(10, 0.001), kept(2000, 0.001), kept(0, 0.5)
    (1, 2, 0)
    """
    if not 0 < density <= 1:
        raise RecipeError(f"topk(density={density}): a density lies above 0 and at most at 1")
    return min(numel, ceil(numel * density))


def largest(flat_N: Tensor, count: int) -> Tensor:
    """Ascending positions of the ``count`` largest magnitudes; among equals the lower position wins."""
    numel = flat_N.numel()
    if count >= numel:
        return torch.arange(numel, device=flat_N.device)
    size_N = flat_N.abs()
    if numel < _SAMPLED_FROM or count * 8 > numel:
        return _largest_of(size_N, count)
    sample = size_N[:: numel // _SAMPLE]
    aim = min(sample.numel() - 1, ceil(_SLACK * sample.numel() * count / numel) + 4)
    survivor_S = torch.nonzero(size_N >= sample.kthvalue(sample.numel() - aim).values).flatten()
    if survivor_S.numel() < count:  # the sample was too optimistic
        return _largest_of(size_N, count)
    return survivor_S[_largest_of(size_N[survivor_S], count)]


def _largest_of(size_N: Tensor, count: int) -> Tensor:
    if count >= size_N.numel():
        return torch.arange(size_N.numel(), device=size_N.device)
    edge = torch.topk(size_N, count, sorted=False).values.min()
    above = torch.nonzero(size_N > edge).flatten()
    level = torch.nonzero(size_N == edge).flatten()[: count - above.numel()]
    return torch.cat([above, level]).sort().values


def topk(density: Knob = 0.001, *, values: Width = "float32", gaps: Gaps = "16bit") -> TopK:
    """Send the largest ``density`` of each tensor."""
    return TopK(density, values, gaps)


examples = (topk(0.01), topk(0.3), topk(1.0), topk(0.2, values="float16"), topk(0.3, values="log8", gaps="rice"),
            topk(0.1, gaps="rice"))  # fmt: skip
