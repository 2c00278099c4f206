"""Random-k: the same random positions on all workers, so that no position travels and payloads add.

    n elements in k strata of about n/k, one position drawn in each:   p_j = lo_j + ⌊u_j·m_j⌋,   m_j = lo_{j+1} − lo_j
    x̂ at p_j = x                                    scale="plain", with a memory for the rest
    x̂ at p_j = m_j·x, so that E[x̂] = x              scale="unbiased", without

Stich, Cordonnier, Jaggi: Sparsified SGD with Memory. NeurIPS 2018, arXiv 1809.07599; Wangni, Wang, Liu, Zhang: Gradient
Sparsification for Communication-Efficient Distributed Optimization. NeurIPS 2018, arXiv 1710.09854.
Both draw k of n freely. Strata give every element the same chance, never draw one twice, and cost k draws instead of n.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tightwire.algebra.codec import Combines, Encoded, Payload, SparseSent, one_round
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.knob import Knob, value_at
from tightwire.algebra.tensors import Bucket, Segment, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.dice import words

Scale = Literal["plain", "unbiased"]


@dataclass(frozen=True)
class RandomK:
    """Send elements at positions that all workers draw alike.

    >>> RandomK(0.01).capacity(Spec.pack([("w", (1000,))]), At())
    40
    """

    density: Knob
    scale: Scale = "plain"
    combines: ClassVar[Combines] = "sum"
    identity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.scale not in ("plain", "unbiased"):
            raise RecipeError(f"randomk(scale={self.scale!r}): give plain or unbiased")
        if not callable(self.density):
            _drawn(1, self.density)

    def init(self, spec: Spec) -> State:
        """Nothing is kept."""
        return {}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        """The values at the positions of this step."""
        index_K, weight_K = self._positions(x.spec, at, x.flat.device)
        value_K = x.flat[index_K].float() * weight_K
        return Encoded(Payload(value_K), SparseSent(index_K, value_K.to(x.flat.dtype)))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Add the values where this step's positions are."""
        if payload.nbytes != self.capacity(out.spec, at):
            raise PayloadError(
                f"a random-k payload of {payload.nbytes} bytes where {self.capacity(out.spec, at)} belong"
            )
        index_K, _ = self._positions(out.spec, at, out.flat.device)
        out.flat.index_add_(0, index_K, payload.wire.view(torch.float32).to(out.flat.dtype))

    def capacity(self, spec: Spec, at: At) -> int:
        """Always the same: a float32 for each position."""
        density = value_at(self.density, at)
        return 4 * sum(_drawn(s.numel, density) for s in spec.segments)

    def expected(self, x: Bucket, at: At) -> Tensor:
        """The mean of what is sent: x, or the share of it that its stratum has."""
        if self.scale == "unbiased":
            return x.flat
        density = value_at(self.density, at)
        return torch.cat([flat / _size_of_stratum(s, density, flat.device) for s, flat in x.segments()])

    def _positions(self, spec: Spec, at: At, device: torch.device) -> tuple[Tensor, Tensor]:
        density = value_at(self.density, at)
        index, weight = [torch.empty(0, dtype=torch.int64, device=device)], [torch.empty(0, device=device)]
        for s in spec.segments:
            lo_K, size_K = _strata(s.numel, _drawn(s.numel, density), device)
            word_K = words(len(lo_K), at.key(shared=True, salt=f"randomk {s.key}"), device).long() & 0xFFFFFFFF
            index.append(s.offset + lo_K + (word_K * size_K >> 32))
            weight.append(size_K.float() if self.scale == "unbiased" else torch.ones_like(size_K, dtype=torch.float32))
        return torch.cat(index), torch.cat(weight)


def _drawn(numel: int, density: float) -> int:
    if not 0 < density <= 1:
        raise RecipeError(f"randomk(density={density}): a density lies above 0 and at most at 1")
    return min(numel, ceil(numel * density))


def _strata(numel: int, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where each of ``count`` strata begins, and its size."""
    edge = torch.arange(count + 1, device=device) * numel // max(1, count)
    return edge[:-1], edge.diff()


def _size_of_stratum(s: Segment, density: float, device: torch.device) -> Tensor:
    _, size_K = _strata(s.numel, _drawn(s.numel, density), device)
    return size_K.repeat_interleave(size_K)


def randomk(density: Knob = 0.01, *, scale: Scale = "plain") -> RandomK:
    """Send ``density`` of each tensor, at random."""
    return RandomK(density, scale)


examples = (randomk(), randomk(0.3), randomk(0.3, scale="unbiased"), randomk(1.0))
