"""Low-rank approximation by one step of subspace iteration: PowerSGD.

    P = Σ_k M_k·Q;   P̂ = orthonormalise(P);   Q ← Σ_k M_kᵀ·P̂;   M̂ = P̂·Qᵀ

Vogels, Karimireddy, Jaggi: PowerSGD. NeurIPS 2019, arXiv 1905.13727.
Two rounds, both sums: the first is asked for, the second is the payload. Q starts the next step where this one ended.
Tensors that would not shrink (vectors, small matrices) ride along uncompressed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tightwire.algebra.codec import Ask, Combines, Encoded, Encoding, Payload
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Segment, Spec, State
from tightwire.algebra.world import At


@dataclass(frozen=True)
class LowRank:
    """Send two thin factors of each matrix.

    >>> LowRank(2).capacity(Spec.pack([("w", (100, 50)), ("b", (100,))]), At())
    1600
    """

    rank: int
    min_shrink: float = 2.0
    combines: ClassVar[Combines] = "sum"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise RecipeError(f"lowrank(rank={self.rank}): the rank is at least 1")

    def init(self, spec: Spec) -> State:
        """The first Q of each matrix: the same on every rank, because its seed is the tensor's name."""
        q = {}
        for s in spec.segments:
            if self._shrinks(s):
                generator = torch.Generator().manual_seed(zlib.crc32(s.key.encode()))
                q[s.key] = torch.randn(s.row_numel, self._rank(s), generator=generator).to(spec.device)
        return {"q": q}

    def encode(self, x: Bucket, state: State, at: At) -> Encoding:
        """Ask for the sum of all left factors; the right factors are the payload."""
        matrices = {s.key: flat.view(s.rows, -1).float() for s, flat in x.segments() if self._shrinks(s)}
        left_parts = [matrix @ state["q"][key] for key, matrix in matrices.items()]
        basis: dict[str, Tensor] = {}
        if left_parts:
            left = yield Ask("sum", torch.cat([part.flatten() for part in left_parts]))
            basis = _bases(dict(_unpack(left, matrices, left_parts)))
        right = {key: matrix.T @ basis[key] for key, matrix in matrices.items()}
        rest = {s.key: flat.float().clone() for s, flat in x.segments() if not self._shrinks(s)}
        pieces = [t.flatten().float() for t in (*right.values(), *rest.values())]
        wire = torch.cat(pieces) if pieces else x.flat.new_empty(0, dtype=torch.float32)
        return Encoded(Payload(wire, local=basis), FactorSent(basis, right, rest))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Out ← out + P̂·Qᵀ, and remember Q for the next step."""
        wire = payload.wire.view(torch.float32)
        at_element = 0
        for s, _ in out.segments():
            if self._shrinks(s):
                count = s.row_numel * self._rank(s)
                right_MR = wire[at_element : at_element + count].view(s.row_numel, -1)
                out[s.key].view(s.rows, -1).add_(payload.local[s.key] @ right_MR.T)
                state["q"][s.key].copy_(right_MR)
                at_element += count
        for s, flat in out.segments():
            if not self._shrinks(s):
                flat.add_(wire[at_element : at_element + s.numel])
                at_element += s.numel

    def capacity(self, spec: Spec, at: At) -> int:
        """Both factors and what rides along, in float32; the first factor is asked for before the payload."""
        return 4 * sum(self._rank(s) * (s.rows + s.row_numel) if self._shrinks(s) else s.numel for s in spec.segments)

    def _rank(self, s: Segment) -> int:
        return min(self.rank, s.rows, s.row_numel)

    def _shrinks(self, s: Segment) -> bool:
        return len(s.shape) > 1 and s.numel > 0 and s.numel >= self.min_shrink * self._rank(s) * (s.rows + s.row_numel)


def _bases(left: dict[str, Tensor]) -> dict[str, Tensor]:
    """Orthonormal columns for every matrix; all of one shape at once, because a GPU takes many launches for each."""
    alike: dict[torch.Size, list[str]] = {}
    for key, left_NR in left.items():
        alike.setdefault(left_NR.shape, []).append(key)
    found: dict[str, Tensor] = {}
    for keys in alike.values():
        found |= zip(keys, orthonormal(torch.stack([left[key] for key in keys])).unbind(), strict=True)
    return {key: found[key] for key in left}


def orthonormal(left_BNR: Tensor) -> Tensor:
    """Columns of length 1 that span the same, for each of some matrices. A single column needs no QR.

    >>> orthonormal(torch.tensor([[[3.0], [4.0]], [[0.0], [0.0]]])).flatten(1)
    tensor([[0.6000, 0.8000],
            [1.0000, 0.0000]])
    """
    if left_BNR.shape[-1] > 1:
        basis_BNR: Tensor = torch.linalg.qr(left_BNR)[0]
        return basis_BNR
    length_B11: Tensor = torch.linalg.vector_norm(left_BNR, dim=(-2, -1), keepdim=True)
    unit_BN1 = left_BNR / length_B11.clamp(min=torch.finfo(left_BNR.dtype).tiny)
    unit_BN1[..., :1, :] += length_B11 == 0  # nothing points nowhere, and Q would stay 0 for ever
    return unit_BN1


def _unpack(flat: Tensor, names: dict[str, Tensor], like: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
    sizes = [part.numel() for part in like]
    for name, shape, part in zip(names, like, flat.split(sizes), strict=True):
        yield name, part.view(shape.shape)


@dataclass(frozen=True)
class FactorSent:
    """This worker's own share of the approximation: P̂·(M_kᵀP̂)ᵀ, never multiplied out unless asked to."""

    basis: dict[str, Tensor]
    right: dict[str, Tensor]
    rest: dict[str, Tensor]

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        for key, basis_NR in self.basis.items():
            bucket[key].view(basis_NR.shape[0], -1).sub_(basis_NR @ self.right[key].T)
        for key, flat in self.rest.items():
            bucket[key].view(-1).sub_(flat)

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """A low-rank message touches every position."""
        bucket.flat.zero_()


def lowrank(rank: int = 1, *, min_shrink: float = 2.0) -> LowRank:
    """Send rank-``rank`` factors of each matrix that they make at least ``min_shrink`` times smaller."""
    return LowRank(rank, min_shrink)


examples = (lowrank(1), lowrank(2, min_shrink=0.0))
