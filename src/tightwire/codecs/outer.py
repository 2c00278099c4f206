"""Outer factors for a server: each worker writes its matrices as it likes, and says how.

    wire = K of each matrix (int32, −1: densely) │ u and v of those that have factors │ everything else, in float32

Chilimbi, Suzue, Apacible, Kalyanaraman: Project Adam. OSDI 2014. Workers send activations and errors of fully connected
layers, the server multiplies them out: K·(N+M) values instead of N·M. No worker has to ask another, because a payload
says what it holds; so a matrix goes by factors whenever they are smaller than it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, Encoded, Payload, one_round
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket, Outer, Segment, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.factors import own_factors
from tightwire.codecs.lowrank import FactorSent

_DENSELY = -1


@dataclass(frozen=True)
class OuterProducts:
    """Matrices by their factors where those are smaller.

    >>> OuterProducts().by_factors(Segment("fc", 0, (30, 20)), samples=11, workers=1)
    True
    """

    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    def by_factors(self, segment: Segment, *, samples: int, workers: int) -> bool:
        """Whether the factors are smaller than the matrix: K·(N+M) < N·M, whatever others do."""
        return samples * sum(segment.shape) < segment.numel

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """Every matrix in the smaller of its two forms."""
        mine: dict[str, Outer] = {}
        for s in _matrices(x.spec):
            outer = own_factors(self, s, x, at)
            if outer is not None:
                mine[s.key] = outer
        counts = [mine[s.key].samples if s.key in mine else _DENSELY for s in _matrices(x.spec)]
        header = torch.tensor(counts, dtype=torch.int32, device=x.flat.device)
        rest = {s.key: flat.float().clone() for s, flat in x.segments() if s.key not in mine}
        thin = [factor.flatten() for outer in mine.values() for factor in (outer.u, outer.v)]
        numbers = torch.cat([x.flat.new_empty(0, dtype=torch.float32), *thin, *rest.values()])
        wire = torch.cat([header.view(torch.uint8), numbers.view(torch.uint8)])
        left, right = {k: outer.u.T for k, outer in mine.items()}, {k: outer.v.T for k, outer in mine.items()}
        return Encoded(Payload(wire), FactorSent(left, right, rest))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + uᵀ·v of each matrix that has factors, and the rest."""
        counts, numbers = _read(payload.wire.contiguous().view(torch.uint8), out.spec)
        begin = 0
        for s in (s for s in _matrices(out.spec) if counts[s.key] != _DENSELY):
            u_KN, begin = _take(numbers, begin, counts[s.key], s.shape[0])
            v_KM, begin = _take(numbers, begin, counts[s.key], s.shape[1])
            out[s.key].addmm_(u_KN.T, v_KM)
        for s, flat in out.segments():
            if counts.get(s.key, _DENSELY) == _DENSELY:
                flat.add_(numbers[begin : begin + s.numel])
                begin += s.numel

    def capacity(self, spec: Spec, at: At) -> int:
        """Everything densely, and 4 bytes a matrix to say so."""
        return 4 * (spec.numel + len(_matrices(spec)))


def _matrices(spec: Spec) -> list[Segment]:
    return [s for s in spec.segments if len(s.shape) == 2]


def _read(wire: Tensor, spec: Spec) -> tuple[dict[str, int], Tensor]:
    """How many samples each matrix has, and the numbers behind; refuses what cannot be."""
    matrices = _matrices(spec)
    head = 4 * len(matrices)
    if wire.numel() < head or wire.numel() % 4:
        raise PayloadError(f"a payload of {wire.numel()} bytes, where {head} and whole numbers belong")
    said = wire[:head].clone().view(torch.int32).tolist()
    counts = {s.key: int(k) for s, k in zip(matrices, said, strict=True)}
    numel = 0
    for s in spec.segments:
        samples = counts.get(s.key, _DENSELY)
        if samples < _DENSELY or samples * sum(s.shape) > s.numel:
            raise PayloadError(f"a payload claims {samples} samples for {s.name!r}, which has {s.numel} elements")
        numel += s.numel if samples == _DENSELY else samples * sum(s.shape)
    if wire.numel() - head != 4 * numel:
        raise PayloadError(f"a payload of {wire.numel()} bytes where {head + 4 * numel} belong")
    return counts, wire[head:].clone().view(torch.float32)


def _take(numbers: Tensor, begin: int, samples: int, width: int) -> tuple[Tensor, int]:
    end = begin + samples * width
    return numbers[begin:end].view(samples, width), end


def outer() -> OuterProducts:
    """Matrices by their factors where those are smaller."""
    return OuterProducts()


examples = (outer(),)
