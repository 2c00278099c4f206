"""Sufficient factors: the gradient of a fully connected layer as the vectors it is made of.

    G = Σ_k u_k·v_kᵀ      u: error at the layer's output, v: its input, one pair for each of K samples

Zhang et al.: Poseidon. USENIX ATC 2017, arXiv 1706.03292. Nothing is approximated. An N×M layer costs (P−1)·K·(N+M)
values by factors and 2(P−1)/P·N·M by a ring, so factors win while

    P·K·(N+M) ≤ 2·N·M

which is the paper's rule, 2K(P₁−1)(N+M) ≤ 2NM(P₁+P₂−2)/P₂, with as many servers as workers.

Rounds: the largest K of any worker (a worker that must go densely says a very large one); everybody's factors, padded
to that K with zeros; the rest is the payload, which any all-reduce can carry. The first costs 4 bytes a matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from tightwire.algebra.codec import Ask, Combines, Encoded, Encoding, Payload, UsesFactors
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Outer, Segment, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.lowrank import FactorSent

Scheme = Literal["cheaper", "factors", "dense"]
_MOST_SAMPLES = 2**16  # of one worker: with more, a matrix goes densely even where factors were asked for
_DENSELY = 2**30  # the K of a worker that has no factors
_TOLERANCE = 1e-5  # of float32 products against each other
_DIRECTIONS = 8


@dataclass(frozen=True)
class Factors:
    """Matrices by their factors where that is cheaper, everything else densely.

    >>> Factors().by_factors(Segment("fc", 0, (4096, 4096)), samples=32, workers=8)
    True
    >>> Factors().by_factors(Segment("fc", 0, (4096, 4096)), samples=1024, workers=8)
    False
    """

    scheme: Scheme = "cheaper"
    combines: ClassVar[Combines] = "sum"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.scheme not in get_args(Scheme):
            raise RecipeError(f"factors(scheme={self.scheme!r}): give one of {', '.join(get_args(Scheme))}")

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    def encode(self, x: Bucket, state: State, at: At) -> Encoding:
        """Ask for the largest K, then for everybody's factors; what goes densely is the payload."""
        matrices = [s for s in x.spec.segments if self._may(s)] if at.world.size > 1 else []
        mine = {s.key: outer for s in matrices if (outer := own_factors(self, s, x, at)) is not None}
        agreed: dict[str, int] = {}
        if matrices:
            samples = [mine[s.key].samples if s.key in mine else _DENSELY for s in matrices]
            most = yield Ask("max", torch.tensor(samples, dtype=torch.int32, device=x.flat.device))
            largest = zip(matrices, most.tolist(), strict=True)
            agreed = {s.key: k for s, k in largest if self.by_factors(s, samples=k, workers=at.world.size)}
        everyones: dict[str, Outer] = {}
        if agreed:
            everyones = _unpacked((yield Ask("gather", _packed(mine, agreed))), mine, agreed)
        rest = {s.key: flat.float().clone() for s, flat in x.segments() if s.key not in agreed}
        wire = torch.cat([x.flat.new_empty(0, dtype=torch.float32), *rest.values()])
        left = {key: mine[key].u.T for key in agreed}
        right = {key: mine[key].v.T for key in agreed}
        return Encoded(Payload(wire, local=everyones), FactorSent(left, right, rest))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + Σ over all workers of uᵀ·v, and the payload where there are no factors."""
        wire, everyones = payload.wire.view(torch.float32), payload.local or {}
        at_element = 0
        for s, flat in out.segments():
            if s.key in everyones:
                outer = everyones[s.key]
                out[s.key].addmm_(outer.u.T, outer.v)
            else:
                flat.add_(wire[at_element : at_element + s.numel])
                at_element += s.numel

    def capacity(self, spec: Spec, at: At) -> int:
        """Everything densely and 4 bytes a matrix: factors are never larger, unless nobody asks what is cheaper."""
        matrices = [s for s in spec.segments if self._may(s)]
        forced = _MOST_SAMPLES * sum(sum(s.shape) for s in matrices) if self.scheme == "factors" else 0
        return 4 * (spec.numel + len(matrices) + forced)

    def by_factors(self, segment: Segment, *, samples: int, workers: int) -> bool:
        """Whether an N×M matrix goes by factors of ``samples`` rows: P·K·(N+M) ≤ 2·N·M."""
        if self.scheme == "factors":
            return samples <= _MOST_SAMPLES
        return self.scheme == "cheaper" and workers * samples * sum(segment.shape) <= 2 * segment.numel

    def _may(self, segment: Segment) -> bool:
        return self.scheme != "dense" and len(segment.shape) == 2 and segment.numel > 0


def own_factors(codec: UsesFactors, segment: Segment, x: Bucket, at: At) -> Outer | None:
    """This worker's factors of a matrix in the units of ``x``, if it has any that the codec may use."""
    outer = x.aside.get(segment.name)
    if outer is None or not codec.by_factors(segment, samples=outer.samples, workers=at.world.size):
        return None
    plain = Outer(outer.u.float(), outer.v.float())
    seed = at.generator(x.flat.device, shared=True, salt=segment.key)
    scale = multiple(x[segment.key].float(), plain, seed)
    return None if scale is None else Outer(plain.u * scale, plain.v)


def multiple(x_NM: Tensor, outer: Outer, generator: torch.Generator) -> float | None:
    """The s with x = s·uᵀ·v, or None if there is none.

    Weighing, clipping and loss scales multiply a gradient; anything else that changes it (another use of the weight, a
    hook, a debt) makes it something that the factors are not. Both sides are compared along a few random directions r:
    x·r against uᵀ·(v·r), which costs one pass over x and no product of large matrices (Freivalds 1979).
    """
    r_MD = torch.randn(x_NM.shape[1], _DIRECTIONS, generator=generator, device=x_NM.device)
    want, have = (x_NM @ r_MD).double().flatten(), (outer.u.T @ (outer.v @ r_MD)).double().flatten()
    square = have.dot(have)
    scale = torch.where(square > 0, want.dot(have) / square, 0.0)
    off = torch.linalg.vector_norm(want - scale * have)
    size = torch.linalg.vector_norm(outer.u).double() * torch.linalg.vector_norm(outer.v).double()
    found, good = torch.stack([scale, (off <= _TOLERANCE * scale.abs() * size).double()]).tolist()
    return found if good else None


def _packed(mine: Mapping[str, Outer], agreed: Mapping[str, int]) -> Tensor:
    """All factors of this worker, each padded with rows of zeros."""
    pieces = [
        F.pad(factor, (0, 0, 0, samples - factor.shape[0])).flatten()
        for key, samples in agreed.items()
        for factor in (mine[key].u, mine[key].v)
    ]
    return torch.cat(pieces)


def _unpacked(said_P: Tensor, mine: Mapping[str, Outer], agreed: Mapping[str, int]) -> dict[str, Outer]:
    """Everybody's rows below each other: one product adds up all workers and samples."""
    found, begin = {}, 0
    for key, samples in agreed.items():
        factors = []
        for width in (mine[key].u.shape[1], mine[key].v.shape[1]):
            factors.append(said_P[:, begin : begin + samples * width].reshape(-1, width))
            begin += samples * width
        found[key] = Outer(*factors)
    return found


def factors(scheme: Scheme = "cheaper") -> Factors:
    """Matrices by their factors: where that is cheaper, wherever there are any, or never."""
    return Factors(scheme)


examples = (factors(), factors("factors"), factors("dense"))
