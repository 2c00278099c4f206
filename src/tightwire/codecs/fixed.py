"""Fixed point with stochastic rounding: a word of IL bits before the point and FL behind it.

    ε = 2^−FL;   x̂ = ε·⌊x/ε⌋  or  ε·(⌊x/ε⌋ + 1), the latter with probability x/ε − ⌊x/ε⌋;   E[x̂] = x
    what lies outside [−2^(IL−1), 2^(IL−1) − ε] goes to its nearer end

Gupta, Agrawal, Gopalakrishnan, Narayanan: Deep Learning with Limited Numerical Precision. ICML 2015, arXiv 1502.02551.
The word has 8 or 16 bits; IL counts the sign, as in the paper. Payloads do not add: a sum could leave the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, DenseSent, Encoded, Payload, one_round
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.codes import exactly
from tightwire.codecs.dice import uniform

_WORDS = {8: torch.int8, 16: torch.int16}


@dataclass(frozen=True)
class Fixed:
    """Send words <IL, FL>.

    >>> Fixed(2, 14).capacity(Spec.pack([("w", (10,))]), At()), Fixed(2, 14).most
    (20, 1.99993896484375)
    """

    whole: int = 2
    fraction: int = 14
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.bits not in _WORDS or self.whole < 1:
            raise RecipeError(
                f"fixed(whole={self.whole}, fraction={self.fraction}): a word of {self.bits} bits; "
                "whole (at least 1, for the sign) and fraction together give 8 or 16"
            )

    @property
    def bits(self) -> int:
        """The word's length."""
        return self.whole + self.fraction

    @property
    def step(self) -> float:
        """ε, the distance between neighbours."""
        return 2.0**-self.fraction

    @property
    def most(self) -> float:
        """The largest number; the smallest is one step farther from 0."""
        return 2.0 ** (self.whole - 1) - self.step

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Round each element up or down at random, so that the mean is right."""
        scaled_N = self.expected(x, at).float().div_(self.step)
        word_N = scaled_N.floor()
        word_N += uniform(x.spec, at, x.flat.device) < scaled_N - word_N
        wire = word_N.to(_WORDS[self.bits])
        return Encoded(Payload(wire.view(torch.uint8)), DenseSent(self._values(wire).to(x.flat.dtype)))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + ε·word."""
        wire = exactly(payload, self.capacity(out.spec, at), "fixed-point").clone()
        out.flat.add_(self._values(wire.view(_WORDS[self.bits])).to(out.flat.dtype))

    def _values(self, word_N: Tensor) -> Tensor:
        return word_N.float().mul_(self.step)

    def capacity(self, spec: Spec, at: At) -> int:
        """One word an element."""
        return spec.numel * self.bits // 8

    def expected(self, x: Bucket, at: At) -> Tensor:
        """The mean of what is sent: x within the range."""
        return x.flat.clamp(-self.most - self.step, self.most)


def fixed(whole: int = 2, fraction: int = 14) -> Fixed:
    """Words of ``whole`` + ``fraction`` bits: 8 or 16."""
    return Fixed(whole, fraction)


examples = (fixed(), fixed(2, 6), fixed(12, 4))
