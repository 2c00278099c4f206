"""QSGD: every element rounded at random to one of s levels of its bucket's norm.

    l = ⌊s·|v_i|/‖v‖⌋;   ξ_i = (l + 1)/s with probability s·|v_i|/‖v‖ − l, else l/s;   v̂_i = ‖v‖·sign(v_i)·ξ_i
    E[v̂] = v;   E‖v̂ − v‖² ≤ min(D/s², √D/s)·‖v‖²

Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD. NeurIPS 2017, arXiv 1610.02132.
Each tensor is cut into buckets of D elements, because the error grows with √D. Levels have a fixed width: a bucket
takes 4 + D·(1 + ⌈log₂(s + 1)⌉)/8 bytes. ‖v‖ is the largest magnitude unless ``norm="l2"`` asks for the length, as the
bound above does: most levels of a length lie where no element is, so the same bytes carry many times the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from tightwire.algebra.codec import Combines, DenseSent, Encoded, Payload, one_round
from tightwire.algebra.doubts import refuse_if
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.codes import codes_nbytes, exactly, pack_codes, scales, spread, unpack_codes
from tightwire.codecs.dice import uniform
from tightwire.codecs.passes import figures_for, rounding_for
from tightwire.codecs.stretches import stretches

Norm = Literal["l2", "max"]
_ORDER: dict[str, float] = {"l2": 2.0, "max": float("inf")}


@dataclass(frozen=True)
class Qsgd:
    """Send a sign, a level, and a norm for each bucket.

    >>> Qsgd(7, 512).capacity(Spec.pack([("w", (1024,))]), At())
    520
    """

    levels: int = 7
    bucket: int = 512
    norm: Norm = "max"
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= 127:
            raise RecipeError(f"qsgd(levels={self.levels}): between 1 and 127 levels, so that a code fits a byte")
        if self.bucket < 1:
            raise RecipeError(f"qsgd(bucket={self.bucket}): a bucket has at least one element")
        if self.norm not in _ORDER:
            raise RecipeError(f"qsgd(norm={self.norm!r}): give one of {', '.join(_ORDER)}")

    @property
    def width(self) -> int:
        """Bits an element: a sign and a level."""
        return 1 + self.levels.bit_length()

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Norms of all buckets first, then all codes."""
        norm_B, fast = self._norms(x), rounding_for(x)
        if fast is not None:
            code_N, rebuilt_N = fast.levels(x, norm_B, self.bucket, self._values(x.flat.device), at)
        else:
            code_N = self._drawn(x, norm_B, at)
            rebuilt_N = self._rebuild(norm_B, code_N, x.spec).to(x.flat.dtype)
        return Encoded(
            Payload(torch.cat([norm_B.view(torch.uint8), pack_codes(code_N, self.width)])), DenseSent(rebuilt_N)
        )

    def _drawn(self, x: Bucket, norm_B: Tensor, at: At) -> Tensor:
        norm_N = self._spread(norm_B, x.spec)
        place_N = torch.where(norm_N > 0, self.levels * (x.flat.abs() / norm_N), 0.0).clamp_(max=self.levels)
        level_N = place_N.floor()
        level_N += uniform(x.spec, at, x.flat.device) < place_N - level_N
        return level_N.to(torch.uint8) | (x.flat < 0).to(torch.uint8) << (self.width - 1)

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + ‖v‖·sign·level/s."""
        wire = exactly(payload, self.capacity(out.spec, at), "qsgd")
        norms_nbytes = 4 * self._buckets(out.spec)
        norm_B = scales(wire[:norms_nbytes], "qsgd")
        code_N = unpack_codes(wire[norms_nbytes:], out.spec.numel, self.width)
        level_N = code_N & ((1 << self.width - 1) - 1)
        refuse_if((level_N > self.levels).any(), f"a qsgd payload has a level above {self.levels}")
        fast = rounding_for(out)
        if fast is not None:
            fast.add_levels_(out, code_N, norm_B, self.bucket, self._values(out.flat.device))
        else:
            out.flat.add_(self._rebuild(norm_B, code_N, out.spec).to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """Always the same: norms and codes."""
        return 4 * self._buckets(spec) + codes_nbytes(spec.numel, self.width)

    def expected(self, x: Bucket, at: At) -> Tensor:
        """The mean of what is sent: x itself."""
        return x.flat

    def _buckets(self, spec: Spec) -> int:
        return sum(-(-s.numel // self.bucket) for s in spec.segments)

    def _norms(self, x: Bucket) -> Tensor:
        fast = figures_for(x)
        if fast is not None:
            square_B, largest_B = fast.sizes(x, self.bucket)
            return largest_B if self.norm == "max" else square_B.sqrt_().float()
        found = stretches(x.spec, x.flat.device, self.bucket)
        if found is not None:
            if self.norm == "max":
                return found.largest(x.flat.abs().float())
            return found.sums(x.flat.double().square_()).sqrt_().float()
        norms = [torch.empty(0, dtype=torch.float64, device=x.flat.device)]  # squares of small numbers need double
        for _, flat in x.segments():
            value_BD = F.pad(flat, (0, -flat.numel() % self.bucket)).view(-1, self.bucket)
            norms.append(torch.linalg.vector_norm(value_BD, _ORDER[self.norm], 1, dtype=torch.float64))
        return torch.cat(norms).float()

    def _spread(self, norm_B: Tensor, spec: Spec) -> Tensor:
        return spread(norm_B, spec, self.bucket)

    def _values(self, device: torch.device) -> Tensor:
        """What each level stands for in a bucket of norm 1."""
        return torch.arange(self.levels + 1, dtype=torch.float32, device=device).div_(self.levels)

    def _rebuild(self, norm_B: Tensor, code_N: Tensor, spec: Spec) -> Tensor:
        level_N = (code_N & ((1 << self.width - 1) - 1)).int().clamp_(max=self.levels)  # a doubt may still wait
        value_N = self._values(code_N.device)[level_N]
        negative_N = code_N >> (self.width - 1) > 0
        return torch.where(negative_N, -value_N, value_N).mul_(self._spread(norm_B, spec))


def qsgd(levels: int = 7, *, bucket: int = 512, norm: Norm = "max") -> Qsgd:
    """Round at random to ``levels`` levels of the norm of each ``bucket`` elements."""
    return Qsgd(levels, bucket, norm)


examples = (qsgd(), qsgd(1, bucket=16), qsgd(127, bucket=1), qsgd(4, bucket=8, norm="l2"))
