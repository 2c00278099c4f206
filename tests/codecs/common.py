"""What the tests of codecs share: one worker's encoding, what comes back of it, and awkward inputs."""

from __future__ import annotations

import torch

from tightwire.algebra.codec import Codec, Encoded
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At, World
from tightwire.testing.meeting import meet


def bucket(*shapes: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float32) -> Bucket:
    """A bucket of normal numbers."""
    spec = Spec.pack([(f"t{i}", shape) for i, shape in enumerate(shapes)], dtype)
    return Bucket(torch.randn(spec.numel, generator=torch.Generator().manual_seed(seed)).to(dtype), spec)


def encoded(codec: Codec, *xs: Bucket, step: int = 3) -> list[Encoded]:
    """The encodings of workers that meet."""
    ats = [At(step=step, world=World(rank, len(xs))) for rank in range(len(xs))]
    return meet([codec.encode(x, codec.init(x.spec), at) for x, at in zip(xs, ats, strict=True)]).results


def rebuilt(codec: Codec, x: Bucket, step: int = 3) -> Bucket:
    """What arrives of one worker's bucket."""
    out = Bucket.zeros(x.spec)
    codec.decode_(out, encoded(codec, x, step=step)[0].payload, codec.init(x.spec), At(step=step, world=World(0, 1)))
    return out


def left_over(codec: Codec, x: Bucket) -> torch.Tensor:
    """What a memory would keep."""
    left = Bucket(x.flat.clone(), x.spec)
    encoded(codec, x)[0].sent.subtract_from_(left)
    return left.flat
