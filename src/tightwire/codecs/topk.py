"""Top-k selection with gap-coded positions, as in Deep Gradient Compression.

    kept_j = ⌈density · n_j⌉ positions of largest |x| in each tensor j
    wire   = 32-bit values, then 16-bit gaps: 6 bytes an element

Lin, Han, Mao, Wang, Dally: Deep Gradient Compression. ICLR 2018, arXiv 1712.01887.
Selection is per tensor; positions are coded over the whole bucket, so one message serves all its tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, Encoded, Payload, SparseSent, one_round
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.knob import Knob, value_at
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.bitpack import gaps_from_index, index_from_gaps, most_gaps

_ELEMENT_NBYTES = 6


@dataclass(frozen=True)
class TopK:
    """Send the largest of each tensor.

    >>> TopK(0.001).capacity(Spec.pack([("w", (1000, 1000))]), At())
    6090
    """

    density: Knob
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not callable(self.density):
            kept(1, self.density)

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Select, sort, code the gaps."""
        density = value_at(self.density, at)
        chosen = [s.offset + largest(flat, kept(s.numel, density)) for s, flat in x.segments()]
        index_K = torch.cat(chosen) if chosen else x.flat.new_empty(0, dtype=torch.int64)
        value_K = x.flat[index_K].float()
        gap_T, value_T = gaps_from_index(index_K, value_K) if len(index_K) else (index_K.short(), value_K)
        wire = torch.cat([value_T.view(torch.uint8), gap_T.view(torch.uint8)])
        return Encoded(Payload(wire), SparseSent(index_K, value_K.to(x.flat.dtype)))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Add the values at their positions."""
        count, odd = divmod(payload.wire.numel(), _ELEMENT_NBYTES)
        if odd:
            raise PayloadError(
                f"a top-k payload of {payload.wire.numel()} bytes is not a multiple of {_ELEMENT_NBYTES}"
            )
        value_T = payload.wire[: 4 * count].view(torch.float32)
        index_T = index_from_gaps(payload.wire[4 * count :].view(torch.int16), out.flat.numel())
        out.flat.index_add_(0, index_T, value_T.to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """Selected elements and the fillers that their gaps can need."""
        density = value_at(self.density, at)
        selected = sum(kept(s.numel, density) for s in spec.segments)
        return _ELEMENT_NBYTES * most_gaps(selected, spec.numel)


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
    if count >= flat_N.numel():
        return torch.arange(flat_N.numel(), device=flat_N.device)
    size_N = flat_N.abs()
    edge = torch.topk(size_N, count, sorted=False).values.min()
    above = torch.nonzero(size_N > edge).flatten()
    level = torch.nonzero(size_N == edge).flatten()[: count - above.numel()]
    return torch.cat([above, level]).sort().values


def topk(density: Knob = 0.001) -> TopK:
    """Send the largest ``density`` of each tensor."""
    return TopK(density)


examples = (topk(0.01), topk(0.3), topk(1.0))
