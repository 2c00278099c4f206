"""What fused top-k kernels share: which memories and codecs they stand for, and how tensors are divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tightwire.algebra.codec import Codec, Sent
from tightwire.algebra.memory import Memory
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.codecs.choose import Choose, Share, Vectors
from tightwire.codecs.topk import TopK, kept
from tightwire.memories.momentum import MomentumCorrection
from tightwire.memories.residual import Residual


def suits(memory: Memory, codec: Codec) -> bool:
    """Whether these parts are what the fused kernels do: top-k, or top-k beside a codec for vectors."""
    if not isinstance(memory, MomentumCorrection | Residual) or memory.listens:
        return False
    if isinstance(codec, Choose) and len(codec.choices) == 1:
        which, small = codec.choices[0]
        return isinstance(codec.rest, TopK) and isinstance(which, Vectors) and not small.init(Spec(()))
    return isinstance(codec, TopK)


def topk_of(codec: TopK | Choose) -> TopK:
    """The top-k in a codec that suits."""
    top = codec.rest if isinstance(codec, Choose) else codec
    assert isinstance(top, TopK)
    return top


def shares_of(codec: TopK | Choose, spec: Spec) -> tuple[Share | None, Share]:
    """The vectors that have a codec of their own, if any have; the tensors that top-k is for."""
    if isinstance(codec, Choose):
        vectors, rest = codec.shares(spec)
        return vectors, rest
    return None, Share(spec.segments, spec)


def layout(share: Share) -> tuple[Any, Any]:
    """Where tensors begin in a bucket of the share's own, and where the last ends; how far they lie from there."""
    here, there = share.spec.segments, share.segments
    begins = np.array([*(s.offset for s in here), share.spec.numel])
    return begins, np.array([b.offset - a.offset for a, b in zip(here, there, strict=True)] or [0])


def inside(share: Share, index_K: Tensor, density: float) -> Tensor:
    """`Share.inside` of positions that were selected at a density: how many each tensor has is known."""
    counts = [kept(s.numel, density) for s in share.segments]
    return index_K - torch.from_numpy(np.repeat(layout(share)[1][: len(counts)], counts))


@dataclass(frozen=True)
class WithVectors:
    """What was selected, and some vectors beside it."""

    selected: Sent
    share: Share
    vectors: Sent

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        self.selected.subtract_from_(bucket)
        mine = self.share.take(bucket)
        self.vectors.subtract_from_(mine)
        self.share.put_(bucket, mine)

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Forget what was selected; a vector that is sent whole has nothing stale."""
        self.selected.zero_where_sent_(bucket)
