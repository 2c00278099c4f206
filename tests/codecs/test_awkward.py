"""Every codec, on inputs that laws draw seldom or never: other precisions, no elements, no tensors, strides, GPUs."""

from __future__ import annotations

import pytest
import torch

from tests.codecs.common import bucket, encoded, left_over, rebuilt
from tightwire.algebra.codec import Codec, Payload
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At, World
from tightwire.codecs.chunked import chunked
from tightwire.codecs.dct import dct
from tightwire.codecs.fixed import fixed
from tightwire.codecs.half import half
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.randomk import randomk
from tightwire.codecs.sign import sign
from tightwire.codecs.terngrad import terngrad
from tightwire.codecs.threshold import threshold

CODECS: list[Codec] = [
    half(), half("bfloat16"), randomk(0.3), randomk(0.3, scale="unbiased"), threshold(0.5, most=0.4),
    threshold(0.5, most=0.4, gaps="rice"), terngrad(), terngrad(scaler="own"), qsgd(), qsgd(5, bucket=16), sign(),
    sign("row"), fixed(), fixed(2, 6), dct(4, chunk=8), dct(4, chunk=8, values="two-bit"), chunked(0.3, chunk=16),
    chunked(0.3, values="float32"),
]  # fmt: skip
codecs = pytest.mark.parametrize("codec", CODECS, ids=str)


@codecs
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_what_is_said_to_be_sent_arrives_in_any_precision(codec: Codec, dtype: torch.dtype) -> None:
    x = bucket((6, 5), (7,), (), dtype=dtype)
    assert left_over(codec, x).dtype == dtype
    torch.testing.assert_close(left_over(codec, x), x.flat - rebuilt(codec, x).flat)


@codecs
@pytest.mark.parametrize("shapes", [[(0,)], [(3, 0)], [(0, 3), (2,)], [()], [(1,)], [(1, 1)], []], ids=str)
def test_tensors_of_one_element_or_none_are_carried(codec: Codec, shapes: list[tuple[int, ...]]) -> None:
    x = bucket(*shapes)
    payload = encoded(codec, x)[0].payload
    assert payload.nbytes <= codec.capacity(x.spec, At())
    assert rebuilt(codec, x).flat.shape == x.flat.shape
    assert bool(rebuilt(codec, x).flat.isfinite().all())


@codecs
def test_zeros_stay_zeros(codec: Codec) -> None:
    x = Bucket.zeros(Spec.pack([("w", (9, 7)), ("b", (5,)), ("s", ())]))
    assert not rebuilt(codec, x).flat.any()


@codecs
@pytest.mark.parametrize("size", [1e-38, 1e-20, 1e30])
def test_very_small_and_very_large_numbers_stay_finite(codec: Codec, size: float) -> None:
    x = bucket((9, 7), (5,))
    x.flat.mul_(size)
    assert bool(rebuilt(codec, x).flat.isfinite().all())


@codecs
def test_the_same_values_elsewhere_in_memory_give_the_same_bytes(codec: Codec) -> None:
    x = bucket((6, 5), (7,))
    shifted = torch.cat([x.flat[:3], x.flat])[3:]
    assert torch.equal(encoded(codec, x)[0].payload.wire, encoded(codec, Bucket(shifted, x.spec))[0].payload.wire)


@codecs
def test_a_payload_that_is_too_long_is_refused_and_nothing_is_added(codec: Codec) -> None:
    x = bucket((6, 5), (7,))
    wire = encoded(codec, x)[0].payload.wire.view(torch.uint8)
    out = Bucket.zeros(x.spec)
    with pytest.raises(PayloadError):
        codec.decode_(out, Payload(torch.cat([wire, wire, wire, wire])), {}, At(world=World(0, 1)))
    assert not out.flat.any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@codecs
def test_a_gpu_sends_what_a_cpu_sends(codec: Codec) -> None:
    x = bucket((64, 48), (100,), ())
    there = Bucket(x.flat.cuda(), Spec(x.spec.segments, x.spec.dtype, "cuda"))
    torch.testing.assert_close(rebuilt(codec, there).flat.cpu(), rebuilt(codec, x).flat, rtol=1e-4, atol=1e-5)
