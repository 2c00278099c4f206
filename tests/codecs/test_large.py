"""Every codec on 100 million elements: what is said to be sent arrives, in the promised bytes. Only with ``--slow``."""

from __future__ import annotations

import pytest
import torch

from tests.codecs.common import encoded
from tests.codecs.test_awkward import CODECS
from tightwire.algebra.codec import Codec
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At, World
from tightwire.codecs.choose import by_dimension
from tightwire.codecs.lowrank import lowrank
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import topk

SPEC = Spec.pack([("w", (12_500, 7_999)), ("b", (12_500,))])
LARGE: list[Codec] = [
    *CODECS, topk(0.001), topk(0.001, values="log8", gaps="rice"), topk(0.25), onebit(), lowrank(1),
    by_dimension(rest=topk(0.001)),
]  # fmt: skip


@pytest.mark.parametrize("codec", LARGE, ids=str)
@pytest.mark.timeout(600)
def test_a_hundred_million_elements(codec: Codec, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--slow"):
        pytest.skip("takes minutes and gigabytes: pytest --slow")
    assert SPEC.numel == 100_000_000
    x = Bucket(torch.randn(SPEC.numel, generator=torch.Generator().manual_seed(0)), SPEC)
    at = At(step=3, world=World(0, 1))
    done = encoded(codec, x)[0]
    assert done.payload.nbytes <= codec.capacity(SPEC, at)
    out = Bucket.zeros(SPEC)
    codec.decode_(out, done.payload, codec.init(SPEC), at)
    done.sent.subtract_from_(x)
    x.flat.add_(out.flat)
    assert torch.allclose(x.flat, torch.randn(SPEC.numel, generator=torch.Generator().manual_seed(0)), atol=1e-4)
