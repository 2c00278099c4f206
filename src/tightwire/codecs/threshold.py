"""Threshold quantisation: ±τ for every element that has grown beyond τ, and nothing for the others.

    r_i > τ: send (i, +);   r_i < −τ: send (i, −);   receivers add ±τ, the sender's memory keeps r_i ∓ τ

Strom: Scalable Distributed DNN Training Using Commodity GPU Cloud Computing. Interspeech 2015.
A word has 31 bits of position and one of sign; ``gaps="rice"`` writes Rice-coded gaps and a bit of sign instead. An
element is sent once a step at most, however far it has grown. How many are sent depends on the data; ``most`` is the
share of each tensor that may be, the largest first, and the rest waits in the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, Encoded, Payload, SparseSent, one_round
from tightwire.algebra.doubts import refuse_if
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.knob import Knob, value_at
from tightwire.algebra.lengths import length_bytes, read_lengths
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.bitpack import pack_bits, unpack_bits
from tightwire.codecs.rice import index_from_rice, most_rice, rice_from_index
from tightwire.codecs.stretches import DEVICES
from tightwire.codecs.topk import largest

Gaps = Literal["words", "rice"]
_WORD_NBYTES = 4
_COUNT = torch.int32
_COUNT_NBYTES = _COUNT.itemsize  # a Rice-coded payload says how many it holds
_MOST_NUMEL = 1 << 31
_TOGETHER = 1 << 20  # positions, up to which a GPU sorts them all


@dataclass(frozen=True)
class Threshold:
    """Send where the accumulated value has crossed ±tau.

    >>> Threshold(0.1, most=0.01).capacity(Spec.pack([("w", (1000,))]), At())
    40
    """

    tau: Knob
    most: float = 0.05
    gaps: Gaps = "words"
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not callable(self.tau) and not self.tau > 0:
            raise RecipeError(f"threshold(tau={self.tau}): a threshold lies above 0")
        if not 0 < self.most <= 1:
            raise RecipeError(f"threshold(most={self.most}): a share lies above 0 and at most at 1")
        if self.gaps not in ("words", "rice"):
            raise RecipeError(f"threshold(gaps={self.gaps!r}): positions travel as words or rice")

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Find who crossed, then write."""
        if x.spec.numel > _MOST_NUMEL:
            raise RecipeError(f"threshold: a bucket of {x.spec.numel} elements; 31 bits reach {_MOST_NUMEL}")
        tau = value_at(self.tau, at)
        index_K = self._crossed(x, tau)
        negative_K = x.flat[index_K] < 0
        value_K = _signed(negative_K, tau).to(x.flat.dtype)
        return Encoded(Payload(self._write(index_K, negative_K, x.spec.numel)), SparseSent(index_K, value_K))

    def _crossed(self, x: Bucket, tau: float) -> Tensor:
        """Whoever crossed, in order; of tensors where too many did, the largest."""
        crossed_K = torch.nonzero(x.flat.abs() > tau).flatten()
        edge_S1, most_S = _limits(x.spec, self.most, crossed_K.device)
        begin_S1 = torch.searchsorted(crossed_K, edge_S1)
        if not bool((begin_S1.diff() > most_S).any()):
            return crossed_K
        at_once = crossed_K.device.type in DEVICES and crossed_K.numel() <= _TOGETHER
        return (together if at_once else one_by_one)(x.flat, crossed_K, begin_S1, most_S)

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Add ±tau at every position."""
        if payload.nbytes > self.capacity(out.spec, at):
            raise PayloadError(
                f"a threshold payload of {payload.nbytes} bytes; {self.capacity(out.spec, at)} are allowed"
            )
        index_K, negative_K = self._read(payload.wire.reshape(-1).view(torch.uint8), out.spec.numel)
        out.flat.index_add_(0, index_K, _signed(negative_K, value_at(self.tau, at)).to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """As many as may be sent."""
        count = sum(_most(s.numel, self.most) for s in spec.segments)
        if self.gaps == "words":
            return _WORD_NBYTES * count
        return _COUNT_NBYTES + -(-count // 8) + _most_rice_up_to(count, spec.numel)

    def _write(self, index_K: Tensor, negative_K: Tensor, numel: int) -> Tensor:
        if self.gaps == "words":
            return (index_K << 1 | negative_K).to(torch.int32).view(torch.uint8)
        count = length_bytes(index_K.numel(), _COUNT, index_K.device)
        return torch.cat([count, pack_bits(negative_K), rice_from_index(index_K, numel)])

    def _read(self, wire: Tensor, numel: int) -> tuple[Tensor, Tensor]:
        if self.gaps == "rice":
            (count,) = read_lengths([wire[:_COUNT_NBYTES]], _COUNT)
            end = _COUNT_NBYTES - (-count // 8)
            if not 0 <= count <= numel or end > wire.numel() or (count == 0 and wire.numel() > end):
                raise PayloadError(f"a threshold payload of {wire.numel()} bytes cannot hold {count} elements")
            return index_from_rice(wire[end:], count, numel), unpack_bits(wire[_COUNT_NBYTES:end], count)
        if wire.numel() % _WORD_NBYTES:
            raise PayloadError(f"a threshold payload of {wire.numel()} bytes is not a whole number of words")
        word_K = wire.clone().view(torch.int32).long() & 0xFFFFFFFF
        index_K = word_K >> 1
        if index_K.numel() > numel:
            raise PayloadError(f"a threshold payload has {index_K.numel()} positions of {numel} elements")
        if index_K.numel():
            wrong = (index_K[-1] >= numel) | (index_K.diff() <= 0).any()
            refuse_if(wrong, f"a threshold payload has positions that do not ascend below {numel}")
            index_K = index_K.clamp(max=numel - 1)  # a doubt may still wait, and no device forgives a place outside
        return index_K, (word_K & 1).bool()


def together(flat_N: Tensor, crossed_K: Tensor, begin_S1: Tensor, most_S: Tensor) -> Tensor:
    """At most so many of each tensor, the largest; equals in order. A few launches, however many tensors."""
    owner_K = torch.repeat_interleave(begin_S1.diff(), output_size=crossed_K.numel())
    by_size_K = flat_N[crossed_K].abs().sort(descending=True, stable=True).indices
    order_K = by_size_K[
        owner_K[by_size_K].sort(stable=True).indices
    ]  # tensor by tensor again, each from its largest on
    place_K = torch.arange(crossed_K.numel(), device=crossed_K.device) - begin_S1[owner_K]
    return crossed_K[order_K[place_K < most_S[owner_K]]].sort().values


def one_by_one(flat_N: Tensor, crossed_K: Tensor, begin_S1: Tensor, most_S: Tensor) -> Tensor:
    """The same, where sorting them all takes longer than asking every tensor."""
    kept = []
    for (begin, end), most in zip(pairwise(begin_S1.tolist()), most_S.tolist(), strict=True):
        mine_K = crossed_K[begin:end]
        kept.append(mine_K if end - begin <= most else mine_K[largest(flat_N[mine_K], most)])
    return torch.cat(kept)


@lru_cache(maxsize=256)
def _limits(spec: Spec, share: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where tensors end, after a 0, and how many of each may be sent; on the device."""
    edges = [0, *(s.offset + s.numel for s in spec.segments)]
    most = [_most(s.numel, share) for s in spec.segments]
    return torch.tensor(edges, device=device), torch.tensor(most, dtype=torch.int64, device=device)


def _most(numel: int, share: float) -> int:
    return min(numel, ceil(numel * share))


def _signed(negative_K: Tensor, tau: float) -> Tensor:
    return torch.where(negative_K, -tau, tau)


def _most_rice_up_to(count: int, numel: int) -> int:
    """The most bytes of any number of positions up to ``count``: the bound of `rice` may fall where its k changes."""
    turns = (int(0.69 * numel / 2 ** (k - 0.5)) + nearby for k in range(32) for nearby in (-1, 0, 1))
    return max(most_rice(c, numel) for c in {count, *turns} if 0 <= c <= count)


def threshold(tau: Knob, *, most: float = 0.05, gaps: Gaps = "words") -> Threshold:
    """Send ±``tau`` where the value has grown beyond it."""
    return Threshold(tau, most, gaps)


examples = (threshold(0.5), threshold(0.2, most=1.0), threshold(0.5, most=0.3, gaps="rice"))
