"""Sixteen bits an element: IEEE half precision or bfloat16.

    x̂ = round(x) to the nearest float16 (11 significant bits, up to 65504) or bfloat16 (8 bits, the range of float32)

Micikevicius, Narang, Alben, Diamos, Elsen, Garcia, Ginsburg, Houston, Kuchaiev, Venkatesh, Wu: Mixed Precision
Training. ICLR 2018, arXiv 1710.03740. What is too large becomes ±65504, what is too small 0; a memory keeps the rest.
Payloads do not add: a sum of two halves rounds again on the way, where no memory sees it. So this is for `gather` and
`owners`, which add in full precision; with `owners` a worker sends what a ring of halves would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from tightwire.algebra.codec import Combines, DenseSent, Encoded, Payload, one_round
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.codes import exactly

Kind = Literal["float16", "bfloat16"]
_DTYPES: dict[str, torch.dtype] = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Half:
    """Send 16-bit floats.

    >>> Half().capacity(Spec.pack([("w", (10,))]), At())
    20
    """

    kind: Kind = "float16"
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.kind not in _DTYPES:
            raise RecipeError(f"half(kind={self.kind!r}): give one of {', '.join(_DTYPES)}")

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Round to nearest, within the range."""
        dtype = _DTYPES[self.kind]
        most = torch.finfo(dtype).max
        rounded_N = x.flat.clamp(-most, most).to(dtype) if torch.finfo(x.flat.dtype).max > most else x.flat.to(dtype)
        sent_N = rounded_N.to(x.flat.dtype) if rounded_N.dtype != x.flat.dtype else rounded_N.clone()
        return Encoded(Payload(rounded_N.contiguous().view(torch.uint8)), DenseSent(sent_N))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + x̂."""
        wire = exactly(payload, self.capacity(out.spec, at), "half")
        out.flat.add_(wire.clone().view(_DTYPES[self.kind]).to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """Two bytes an element."""
        return 2 * spec.numel


def half(kind: Kind = "float16") -> Half:
    """Sixteen bits an element."""
    return Half(kind)


examples = (half(), half("bfloat16"))
