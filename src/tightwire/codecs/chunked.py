"""The largest of every chunk, in two bits each: SparseLoCo's codec.

    a tensor in chunks of C elements;  the k = ⌈density·size⌉ of largest |x| of each;  positions of ⌈log₂C⌉ bits
    x̂ = ±(the mean of the larger, or of the smaller, of its chunk's picks)                      values="two-bit"

Sarfi, Thérien, Lidin, Belilovsky: Communication Efficient LLM Pre-training with SparseLoCo. arXiv 2508.15706, 2025.
At 2% of chunks of 4096 a pick takes 1.8 bytes, where 32-bit values and indices take 8. Two means a chunk travel as
bfloat16; what all this rounds away is in `Sent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, Encoded, Payload, SparseSent, one_round
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.knob import Knob, value_at
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.picks import Block, Picks, Values, pick


@dataclass(frozen=True)
class Chunked:
    """Send the largest of each chunk.

    >>> Chunked(0.02).capacity(Spec.pack([("w", (64, 64))]), At())
    148
    """

    density: Knob
    chunk: int = 4096
    values: Values = "two-bit"
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Picks(self.values, self.chunk)
        if not callable(self.density):
            _kept(1, self.density)

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Pick in each chunk, then write."""
        blocks = self._blocks(x.spec, at)
        values = [_rows(x.flat, b).float() for b in blocks]
        index = [pick(value_BC.abs(), b.kept) for b, value_BC in zip(blocks, values, strict=True)]
        picked = [value_BC.gather(1, index_BK) for value_BC, index_BK in zip(values, index, strict=True)]
        wire, rounded = Picks(self.values, self.chunk).write(index, picked, x.flat.device)
        place_K, value_K = _placed(blocks, index, rounded, x.flat)
        return Encoded(Payload(wire), SparseSent(place_K, value_K))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Add the values at their positions."""
        blocks = self._blocks(out.spec, at)
        index, values = Picks(self.values, self.chunk).read(payload, blocks, "chunked")
        out.flat.index_add_(0, *_placed(blocks, index, values, out.flat))

    def capacity(self, spec: Spec, at: At) -> int:
        """Always the same: every chunk sends as many."""
        return Picks(self.values, self.chunk).nbytes(self._blocks(spec, at))

    def _blocks(self, spec: Spec, at: At) -> list[Block]:
        """Whole chunks of each tensor, and the shorter one at its end."""
        density, blocks = value_at(self.density, at), []
        for s in spec.segments:
            whole, rest = divmod(s.numel, self.chunk)
            if whole:
                blocks.append(Block(s.offset, whole, self.chunk, _kept(self.chunk, density)))
            if rest:
                blocks.append(Block(s.offset + whole * self.chunk, 1, rest, _kept(rest, density)))
        return blocks


def _rows(flat: Tensor, b: Block) -> Tensor:
    return flat[b.offset : b.offset + b.chunks * b.size].view(b.chunks, b.size)


def _placed(
    blocks: Sequence[Block], index: Sequence[Tensor], value: Sequence[Tensor], like: Tensor
) -> tuple[Tensor, Tensor]:
    """Places in the bucket, and values in its precision."""
    place = [torch.empty(0, dtype=torch.int64, device=like.device)]
    for b, index_BK in zip(blocks, index, strict=True):
        first_B = b.offset + b.size * torch.arange(b.chunks, device=like.device)
        place.append((first_B[:, None] + index_BK).flatten())
    return torch.cat(place), torch.cat([like.new_empty(0), *(v.flatten().to(like.dtype) for v in value)])


def _kept(numel: int, density: float) -> int:
    if not 0 < density <= 1:
        raise RecipeError(f"chunked(density={density}): a density lies above 0 and at most at 1")
    return min(numel, ceil(numel * density))


def chunked(density: Knob = 0.02, *, chunk: int = 4096, values: Values = "two-bit") -> Chunked:
    """Send the largest ``density`` of every ``chunk`` elements."""
    return Chunked(density, chunk, values)


examples = (chunked(), chunked(0.3, chunk=8), chunked(1.0, chunk=5, values="float32"), chunked(0.5, values="bfloat16"))
