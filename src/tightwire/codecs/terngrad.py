"""TernGrad: every element becomes −s, 0 or s, right on average.

    g ← clip(g, −c·σ, c·σ);   s_k = max|g|;   s = max over workers of s_k
    g̃_i = s·sign(g_i)·b_i,   P(b_i = 1) = |g_i|/s;   E[g̃] = g,   Var[g̃_i] = |g_i|·(s − |g_i|)

Wen, Xu, Yan, Wu, Wang, Chen, Li: TernGrad. NeurIPS 2017, arXiv 1705.07878 (c = 2.5).
Two bits an element, four codes a byte, and a float32 a tensor. All workers share the scaler s, which they ask for
first: so the sum over P workers lies on 2P + 1 levels. ``scaler="own"`` asks nobody, for exchanges where nobody
answers. σ is the root mean square: the deviation of gradients, whose mean is nearly 0, and it leaves constant and
one-element tensors unclipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, sqrt
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tightwire.algebra.codec import Ask, Combines, DenseSent, Encoded, Encoding, Payload
from tightwire.algebra.doubts import refuse_if
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.codes import codes_nbytes, exactly, pack_codes, scales, spread, unpack_codes
from tightwire.codecs.dice import uniform
from tightwire.codecs.passes import figures_for, passes_for
from tightwire.codecs.stretches import stretches

Scaler = Literal["shared", "own"]
_WIDTH = 2
_UP, _DOWN = 1, 2  # codes; 0 is nothing, 3 is no code
_LOW_BITS = 0b01010101  # of the four codes in a byte


@dataclass(frozen=True)
class TernGrad:
    """Send two bits an element.

    >>> TernGrad().capacity(Spec.pack([("w", (1000,))]), At())
    258
    """

    clip: float = 2.5
    scaler: Scaler = "shared"
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise RecipeError(f"terngrad(clip={self.clip}): so many deviations are kept; above 0, inf for all")
        if self.scaler not in ("shared", "own"):
            raise RecipeError(f"terngrad(scaler={self.scaler!r}): give shared or own")

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    def encode(self, x: Bucket, state: State, at: At) -> Encoding:
        """Clip, agree on a scaler for each tensor, draw."""
        value_N, scale_S = self._clipped(x)
        if self.scaler == "shared" and len(scale_S):
            scale_S = yield Ask("max", scale_S)
        fast = passes_for(x)
        if fast is not None:
            byte_B, rebuilt_N = fast.ternary(x, value_N, scale_S, at)
        else:
            drawn_N = uniform(x.spec, at, x.flat.device).mul_(_spread(scale_S, x.spec)) < value_N.abs()
            code_N = torch.where(value_N < 0, _DOWN, _UP).to(torch.uint8).mul_(drawn_N)
            byte_B, rebuilt_N = pack_codes(code_N, _WIDTH), _rebuild(scale_S, code_N, x.spec).to(x.flat.dtype)
        return Encoded(Payload(torch.cat([scale_S.view(torch.uint8), byte_B])), DenseSent(rebuilt_N))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + s·code."""
        scales_nbytes = 4 * len(out.spec.segments)
        wire = exactly(payload, scales_nbytes + codes_nbytes(out.spec.numel, _WIDTH), "ternary")
        scale_S = scales(wire[:scales_nbytes], "ternary")
        byte_B, fast = wire[scales_nbytes:], passes_for(out)
        refuse_if((byte_B & (byte_B >> 1) & _LOW_BITS).any(), "a ternary payload has a code that is none")
        if fast is not None:
            fast.add_ternary_(out, byte_B, scale_S)
            return
        code_N = unpack_codes(byte_B, out.spec.numel, _WIDTH)
        out.flat.add_(_rebuild(scale_S, code_N, out.spec).to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """Always the same: codes, scalers, and the question for them."""
        scalers = len(spec.segments) * (2 if self.scaler == "shared" else 1)
        return 4 * scalers + codes_nbytes(spec.numel, _WIDTH)

    def expected(self, x: Bucket, at: At) -> Tensor:
        """The mean of what is sent: x clipped, in float32."""
        return self._clipped(x)[0]

    def _clipped(self, x: Bucket) -> tuple[Tensor, Tensor]:
        """Values, and the largest magnitude of each tensor of them."""
        fast = figures_for(x)
        if fast is None:
            value_N = self._each_clipped(x)
            return value_N, _scales(value_N, x.spec)
        square_S, largest_S = fast.sizes(x, "tensor")
        if isinf(self.clip):
            return x.flat, largest_S
        most_S = self._most(square_S.sqrt(), x.spec)
        return _clamped(x.flat, most_S, x.spec), torch.minimum(largest_S, most_S)

    def _each_clipped(self, x: Bucket) -> Tensor:
        value_N = x.flat.float()
        if isinf(self.clip):
            return value_N
        found = stretches(x.spec, value_N.device, "tensor")
        if found is not None:
            length_S = found.sums(value_N.double().square_()).sqrt_()
            most_N = found.spread(self.clip * (length_S / found.length_S.clamp(min=1).sqrt()).float())
            return value_N.clamp(-most_N, most_N)
        each = (torch.linalg.vector_norm(flat, dtype=torch.float64)[None] for _, flat in x.segments())
        length_S = torch.cat([value_N.new_empty(0, dtype=torch.float64), *each])
        return _clamped(value_N, self._most(length_S, x.spec), x.spec)

    def _most(self, length_S: Tensor, spec: Spec) -> Tensor:
        """So many deviations of each tensor."""
        root_S = length_S.new_tensor([sqrt(max(1, s.numel)) for s in spec.segments])
        return self.clip * (length_S / root_S).float()


def _clamped(value_N: Tensor, most_S: Tensor, spec: Spec) -> Tensor:
    clipped_N = torch.empty_like(value_N)
    for s, most in zip(spec.segments, most_S, strict=True):
        place = slice(s.offset, s.offset + s.numel)
        torch.clamp(value_N[place], -most, most, out=clipped_N[place])
    return clipped_N


def _scales(value_N: Tensor, spec: Spec) -> Tensor:
    """The largest magnitude of each tensor."""
    found = stretches(spec, value_N.device, "tensor")
    if found is not None:
        return found.largest(value_N.abs())
    each = (_largest(value_N[s.offset : s.offset + s.numel]) for s in spec.segments)
    return torch.cat([value_N.new_empty(0), *each])


def _largest(value_N: Tensor) -> Tensor:
    if not value_N.numel():
        return value_N.new_zeros(1)
    low, high = torch.aminmax(value_N)
    return torch.maximum(low.abs(), high.abs())[None]


def _rebuild(scale_S: Tensor, code_N: Tensor, spec: Spec) -> Tensor:
    return ((code_N == _UP).float() - (code_N == _DOWN).float()).mul_(_spread(scale_S, spec))


def _spread(scale_S: Tensor, spec: Spec) -> Tensor:
    return spread(scale_S, spec, "tensor")


def terngrad(clip: float = 2.5, *, scaler: Scaler = "shared") -> TernGrad:
    """Two bits an element, unbiased up to ``clip`` deviations."""
    return TernGrad(clip, scaler)


examples = (terngrad(), terngrad(float("inf")), terngrad(scaler="own"))
