"""One bit an element, two values a row.

    bit_i = (x_i ≥ 0);   μ₁ = mean{x_i ≥ 0},  μ₀ = mean{x_i < 0}   (an empty side gives 0)
    x̂_i = bit_i ? μ₁ : μ₀

Seide, Fu, Droppo, Li, Yu: 1-Bit Stochastic Gradient Descent. Interspeech 2014.
Row sums of x̂ equal those of x. The paper quantises columns of its weight matrices; our rows are the weights into one
output unit, which lie next to each other in PyTorch's layout. A one-dimensional tensor is a single row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, DenseSent, Encoded, Payload, one_round
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.bitpack import pack_bits, unpack_bits
from tightwire.codecs.passes import figures_for, passes_for
from tightwire.codecs.stretches import stretches

_ROW_NBYTES = 8  # two float32 means


@dataclass(frozen=True)
class OneBit:
    """Send signs, and the mean of each side of each row.

    >>> OneBit().capacity(Spec.pack([("w", (10, 100))]), At())
    205
    """

    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Means of every row first, then the bits of all rows."""
        mean_R2, fast = means(x), passes_for(x)
        if fast is not None:
            byte_B, rebuilt_N = fast.signs(x, mean_R2)
        else:
            byte_B, rebuilt_N = pack_bits(x.flat >= 0), _rebuilt(x.flat >= 0, mean_R2, x.spec).to(x.flat.dtype)
        return Encoded(Payload(torch.cat([mean_R2.flatten().view(torch.uint8), byte_B])), DenseSent(rebuilt_N))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Add each row's mean on the side its bit says."""
        if payload.wire.numel() != self.capacity(out.spec, at):
            raise PayloadError(
                f"a one-bit payload of {payload.wire.numel()} bytes where {self.capacity(out.spec, at)} belong"
            )
        mean_nbytes = _ROW_NBYTES * rows(out.spec)
        mean_R2 = payload.wire[:mean_nbytes].view(torch.float32).view(-1, 2)
        byte_B, fast = payload.wire[mean_nbytes:], passes_for(out)
        if fast is not None:
            fast.add_signs_(out, byte_B, mean_R2)
        else:
            out.flat.add_(_rebuilt(unpack_bits(byte_B, out.spec.numel), mean_R2, out.spec).to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """Always the same: bits and means."""
        return -(-spec.numel // 8) + _ROW_NBYTES * rows(spec)


def rows(spec: Spec) -> int:
    """Rows of all tensors of a layout."""
    return sum(s.rows for s in spec.segments)


def means(x: Bucket) -> Tensor:
    """Two for each row of all tensors."""
    fast = figures_for(x)
    if fast is not None:
        return fast.means(x)
    found = stretches(x.spec, x.flat.device, "row")
    if found is None:
        each = (row_means(flat.view(s.rows, s.row_numel)) for s, flat in x.segments())
        return torch.cat([torch.empty(0, 2, device=x.flat.device), *each])
    value_N = x.flat.float()
    high_R, low_R = found.sums(value_N.clamp(min=0)), found.sums(value_N.clamp(max=0))
    count_R = found.sums((value_N >= 0).float())  # whole numbers, exact: a row has fewer than 2²⁴ elements
    return torch.stack([low_R / (found.length_S - count_R).clamp(min=1), high_R / count_R.clamp(min=1)], 1)


def row_means(x_RC: Tensor) -> Tensor:
    """The mean of the negative and of the other elements of each row.

    >>> row_means(torch.tensor([[-1.0, -1.0, 2.0, 4.0], [1.0, 1.0, 1.0, 1.0]]))
    tensor([[-1.,  3.],
            [ 0.,  1.]])
    """
    count_R = torch.count_nonzero(x_RC >= 0, dim=1)
    high_R = x_RC.clamp(min=0).sum(1, dtype=torch.float64) / count_R.clamp(min=1)
    low_R = x_RC.clamp(max=0).sum(1, dtype=torch.float64) / (x_RC.shape[1] - count_R).clamp(min=1)
    return torch.stack([low_R, high_R], 1).float()


def _rebuilt(positive_N: Tensor, mean_R2: Tensor, spec: Spec) -> Tensor:
    """The mean of each element's row, on the side that its bit says."""
    out_N = mean_R2.new_empty(spec.numel)
    row = 0
    for s in spec.segments:
        low_R1, high_R1 = mean_R2[row : row + s.rows].split(1, dim=1)
        place = slice(s.offset, s.offset + s.numel)
        out_N[place].view(s.rows, s.row_numel).copy_(
            torch.where(positive_N[place].view(s.rows, s.row_numel), high_R1, low_R1)
        )
        row += s.rows
    return out_N


def onebit() -> OneBit:
    """One bit an element, two float32 a row."""
    return OneBit()


examples = (onebit(),)
