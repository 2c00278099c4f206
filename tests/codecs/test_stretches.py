"""Many stretches at once give what each gives alone; on a CPU nobody asks so, unless told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.codecs.common import encoded
from tests.kernels.passing import there_and_back, without
from tightwire.algebra.codec import Codec
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs import stretches as module
from tightwire.codecs.dice import uniform
from tightwire.codecs.onebit import onebit
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.sign import sign
from tightwire.codecs.stretches import Per, counted, stretches
from tightwire.codecs.terngrad import terngrad
from tightwire.codecs.threshold import threshold
from tightwire.kernels.cpu_bits import cpu_passes
from tightwire.testing.strategies import buckets

CPU = torch.device("cpu")
CODECS = [onebit(), terngrad(), terngrad(float("inf"), scaler="own"), qsgd(bucket=16), qsgd(4, bucket=8, norm="l2"),
          sign(), sign("row")]  # fmt: skip


@contextmanager
def at_once() -> Iterator[None]:
    module.DEVICES.add("cpu")
    try:
        yield
    finally:
        module.DEVICES.remove("cpu")


@given(buckets(), st.sampled_from(["row", "tensor", 1, 7]))
def test_each_is_what_it_is_alone(x: Bucket, per: Per) -> None:
    with at_once():
        found = stretches(x.spec, CPU, per)
    alone: list[torch.Tensor] = []
    for s, flat in x.segments():
        count, length = counted(s, per)
        alone += [flat[begin * length : min(s.numel, (begin + 1) * length)].double() for begin in range(count)]
    if not alone:
        assert found is None
        return
    assert found is not None
    sums, most = found.sums(x.flat.double()), found.largest(x.flat.double().abs())
    torch.testing.assert_close(sums, torch.stack([part.sum() for part in alone]))
    assert most.tolist() == [float(part.abs().max()) if part.numel() else 0.0 for part in alone]
    number_S = torch.arange(len(alone))
    assert found.spread(number_S).tolist() == [n for n, part in enumerate(alone) for _ in part]


@given(buckets(), st.sampled_from(CODECS), st.integers(0, 5))
def test_codecs_send_the_same(x: Bucket, codec: Codec, step: int) -> None:
    with without(cpu_passes):
        alone = there_and_back(codec, x, At(step=step))
        with at_once():
            together = there_and_back(codec, x, At(step=step))
    size = float(x.flat.abs().max()) if x.flat.numel() else 0.0
    for one, other in zip(alone[1:], together[1:], strict=True):  # the last bits of a scale may differ
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * size)


@given(buckets(), st.floats(0.01, 1.0))
def test_thresholds_choose_the_same(x: Bucket, most: float) -> None:
    alone = encoded(threshold(0.2, most=most), x)[0].payload.wire
    with at_once():
        assert torch.equal(alone, encoded(threshold(0.2, most=most), x)[0].payload.wire)


@given(buckets(), st.integers(0, 5))
def test_draws_are_the_same_bit_for_bit(x: Bucket, step: int) -> None:
    (_, spec), *_ = [*x.spec.cut(2)][::-1]  # tensors that begin in the middle
    alone = uniform(spec, At(step=step), CPU)
    with at_once():
        assert torch.equal(alone, uniform(spec, At(step=step), CPU))


@pytest.mark.parametrize("numel", [1 << 20, (1 << 20) + 1])
def test_a_long_stretch_is_asked_alone(numel: int) -> None:
    with at_once():
        assert (stretches(Spec.pack([("w", (numel,)), ("b", (3,))]), CPU, "tensor") is None) == (numel > 1 << 20)
