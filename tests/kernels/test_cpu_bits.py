"""Bits packed by compiled loops: the bytes, what they stand for and what is added equal the codecs' own way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.kernels.passing import there_and_back, without
from tightwire.algebra.codec import Codec
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.onebit import onebit
from tightwire.codecs.passes import passes_for, rounding_for
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.terngrad import terngrad
from tightwire.kernels import cpu_bits
from tightwire.kernels.cpu_bits import CpuPasses, cpu_passes

pytest.importorskip("numba")
SPECS = [
    Spec.pack([("w", (300, 501)), ("b", (30,)), ("none", (0, 3)), ("few", (3, 1)), ("c", (8, 3, 7, 7)), ("s", ())]),
    Spec.pack([("one", (1,))]),
    Spec.pack([("z", (2, 0)), ("w", (1023,)), ("v", (1,)), ("u", (2,)), ("t", (7, 13))]),
]


@pytest.fixture(autouse=True)
def one_or_two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small buckets too, and threads as asked for."""
    monkeypatch.setattr(cpu_bits, "FROM_NUMEL", 1)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.numel))
@pytest.mark.parametrize(
    "codec",
    [
        onebit(), terngrad(), terngrad(float("inf"), scaler="own"), qsgd(), qsgd(1, bucket=16), qsgd(127, bucket=1),
        qsgd(4, bucket=1000, norm="l2"),
    ],
)  # fmt: skip
def test_they_do_as_the_codec_itself(codec: Codec, spec: Spec, threads: int) -> None:
    torch.set_num_threads(threads)
    for step in range(4):
        x = Bucket(torch.randn(spec.numel, generator=torch.Generator().manual_seed(step)), spec)
        if step == 2:
            x.flat.round_()
        if step == 3:
            x.flat.zero_()
        assert isinstance(passes_for(x), CpuPasses) and isinstance(rounding_for(x), CpuPasses)
        fast = there_and_back(codec, x, At(step=step))
        with without(cpu_passes):
            assert passes_for(x) is None and rounding_for(x) is None
            slow = there_and_back(codec, x, At(step=step))
        for one, other in zip(fast, slow, strict=True):
            assert torch.equal(one, other), step


@pytest.mark.parametrize(("numel", "threads"), [(1, 2), (64, 2), (65, 2), (1000, 3), (1000, 1)])
def test_stretches_begin_at_whole_bytes_and_leave_nothing_out(numel: int, threads: int) -> None:
    torch.set_num_threads(threads)
    seen: list[tuple[int, int]] = []
    cpu_bits.in_stretches(lambda low, high: seen.append((low, high)), numel)
    seen.sort()
    assert [low for low, _ in seen] == [0, *(high for _, high in seen[:-1])] and seen[-1][1] == numel
    assert all(low % 8 == 0 for low, _ in seen) and len(seen) <= threads
