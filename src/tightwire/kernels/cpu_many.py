"""Top-k of a large part of everything, on a CPU: bits and values without a list of positions in between.

Compiled loops of `numba_many`; the bytes are those of `TopK` where its positions are bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.codecs.choose import Share
from tightwire.codecs.topk import TopK, kept
from tightwire.kernels.parts import layout


@dataclass(frozen=True)
class MarkedSent:
    """Values where bits are set, in the tensors of a share."""

    loops: Any
    share: Share
    words: Any
    values: Any

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        self.loops.add_marked(bucket.flat.numpy(), *layout(self.share), self.words, self.values, np.float32(-1))

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Forget what was sent."""
        self.loops.zero_marked(bucket.flat.numpy(), *layout(self.share), self.words)


def mark(loops: Any, x: Bucket, share: Share, density: float) -> tuple[Tensor, MarkedSent]:
    """The largest of each tensor of the share as bytes, and what was sent."""
    counts = [kept(s.numel, density) for s in share.segments]
    values = np.empty(sum(counts) + 1, np.float32)  # room for one that is not taken
    words = np.zeros(share.spec.numel // 64 + 2, np.uint64)
    n = 0
    for here, there, count in zip(share.segments, share.spec.segments, counts, strict=True):
        if count:
            flat = x.flat[here.offset : here.offset + here.numel].numpy()
            loops.mark(flat, count, there.offset, words, values[n:])
            n += count
    bits = words.view(np.uint8)[: -(-share.spec.numel // 8)]
    wire = torch.from_numpy(np.concatenate([values[:n].view(np.uint8), bits]))
    return wire, MarkedSent(loops, share, words, values[:n])


def marked(loops: Any, wire: Tensor, share: Share, top: TopK, at: At) -> tuple[Any, Any]:
    """Bits, in words, and values of a payload."""
    begin, end, count = top.frame(wire, share.spec, at)
    words = loops.words_of(wire[end:].numpy())
    if loops.count_marked(words, share.spec.numel) != count:
        raise PayloadError(f"bits that do not mark {count} of {share.spec.numel} places")
    return words, wire[begin:end].clone().numpy().view(np.float32)


def add_marked(loops: Any, x: Bucket, share: Share, parts: Sequence[tuple[Any, Any]]) -> None:
    """Add what payloads carry, one after another."""
    for words, values in parts:
        loops.add_marked(x.flat.numpy(), *layout(share), words, values, np.float32(1))
