"""Scaled signs: one bit an element, and one magnitude a tensor (or a row).

    x̂ = (‖x‖₁/n)·sign(x),   sign(0) = +1

Karimireddy, Rebjock, Stich, Jaggi: Error Feedback Fixes SignSGD and other Gradient Compression Schemes. ICML 2019,
arXiv 1901.09847. The scale makes this a compressor, ‖x − x̂‖² = ‖x‖² − ‖x‖₁²/n, so that error feedback repairs what
signs alone get wrong. One bit of Seide et al. (`onebit`) has two magnitudes a row instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, DenseSent, Encoded, Payload, one_round
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Segment, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.bitpack import pack_bits, unpack_bits
from tightwire.codecs.codes import exactly, scales, spread
from tightwire.codecs.stretches import stretches

Per = Literal["tensor", "row"]


@dataclass(frozen=True)
class Sign:
    """Send signs and their mean magnitude.

    >>> Sign().capacity(Spec.pack([("w", (10, 100)), ("b", (10,))]), At())
    135
    """

    per: Per = "tensor"
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.per not in ("tensor", "row"):
            raise RecipeError(f"sign(per={self.per!r}): a magnitude for each tensor or row")

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Magnitudes first, then all bits."""
        scale_S, positive_N = self._means(x), x.flat >= 0
        wire = torch.cat([scale_S.view(torch.uint8), pack_bits(positive_N)])
        return Encoded(Payload(wire), DenseSent(self._rebuild(scale_S, positive_N, x.spec).to(x.flat.dtype)))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out ± magnitude."""
        wire = exactly(payload, self.capacity(out.spec, at), "sign")
        scales_nbytes = 4 * self._scales(out.spec)
        scale_S = scales(wire[:scales_nbytes], "sign")
        positive_N = unpack_bits(wire[scales_nbytes:], out.spec.numel)
        out.flat.add_(self._rebuild(scale_S, positive_N, out.spec).to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """Always the same: bits and magnitudes."""
        return -(-spec.numel // 8) + 4 * self._scales(spec)

    def _means(self, x: Bucket) -> Tensor:
        found = stretches(x.spec, x.flat.device, self.per)
        if found is not None:
            return found.sums(x.flat.abs().float()) / found.length_S.clamp(min=1)
        mean = [torch.empty(0, device=x.flat.device)]
        for s, flat in x.segments():
            size_RC = flat.abs().view(self._rows(s), -1) if s.numel else flat.new_zeros(self._rows(s), 1)
            mean.append(size_RC.mean(1, dtype=torch.float32))
        return torch.cat(mean)

    def _rows(self, s: Segment) -> int:
        return s.rows if self.per == "row" else 1

    def _scales(self, spec: Spec) -> int:
        return sum(self._rows(s) for s in spec.segments)

    def _rebuild(self, scale_S: Tensor, positive_N: Tensor, spec: Spec) -> Tensor:
        size_N = spread(scale_S, spec, self.per)
        return torch.where(positive_N, size_N, -size_N)


def sign(per: Per = "tensor") -> Sign:
    """One bit an element, one float32 a tensor or row."""
    return Sign(per)


examples = (sign(), sign("row"))
