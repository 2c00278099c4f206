"""The seat of kernels: a fused compressor is found in place of the composed one, and must do the same."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from tests.laws.breaking import nobody, unshrunk
from tightwire import kernels
from tightwire.algebra.codec import Ask, Codec, Payload, SparseSent, drive
from tightwire.algebra.compressor import Composed, Compressed, Compressor, Kept
from tightwire.algebra.memory import Memory, bucket_of
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.dense import dense
from tightwire.codecs.lowrank import lowrank
from tightwire.codecs.topk import TopK, topk
from tightwire.memories.momentum import momentum_correction
from tightwire.memories.nothing import nothing
from tightwire.memories.residual import Residual, residual
from tightwire.testing.kernels import check_all

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures(unshrunk.__name__)


@dataclass(frozen=True)
class Fused:
    """Residual and top-k in one pass: what is selected leaves the residual while it is encoded."""

    memory: Residual
    codec: TopK

    def init(self, spec: Spec) -> Kept:
        return Kept({"residual": Bucket.zeros(spec)}, {})

    def compress(self, x: Bucket, kept: Kept, at: At) -> Generator[Ask, Tensor, Compressed]:
        owed = bucket_of(kept.memory, "residual")
        owed.flat.add_(x.flat)
        encoded = yield from self.codec.encode(owed, kept.codec, at)
        assert isinstance(encoded.sent, SparseSent)
        owed.flat[encoded.sent.index_K] = 0
        return Compressed(encoded.payload, encoded.sent, owed)

    def settle(self, done: Compressed, received: Bucket, kept: Kept, at: At) -> None:
        pass


class SendsDouble(Fused):
    """Keeps the right residual and sends twice what it should."""

    def compress(self, x: Bucket, kept: Kept, at: At) -> Generator[Ask, Tensor, Compressed]:
        done = yield from super().compress(x, kept, at)
        again = done.payload.wire.clone()
        again[: len(again) // 6 * 4].view(torch.float32).mul_(2)
        return replace(done, payload=Payload(again))


class OwesInVain(Fused):
    """Sends the right thing and says that all of it is still owed."""

    def compress(self, x: Bucket, kept: Kept, at: At) -> Generator[Ask, Tensor, Compressed]:
        bucket_of(kept.memory, "residual").flat.zero_()
        return (yield from super().compress(x, kept, at))

    def settle(self, done: Compressed, received: Bucket, kept: Kept, at: At) -> None:
        bucket_of(kept.memory, "residual").flat.copy_(received.flat)


def for_residual_topk(memory: Memory, codec: Codec, device: torch.device) -> Compressor | None:
    if isinstance(memory, Residual) and isinstance(codec, TopK) and device.type == "cpu":
        return Fused(memory, codec)
    return None


@pytest.fixture
def registered() -> Iterator[None]:
    kernels.register(for_residual_topk)
    yield
    kernels.unregister(for_residual_topk)


def test_without_kernels_the_composed_compressor_is_found() -> None:
    assert kernels.find(residual(), topk(0.2), CPU) == Composed(residual(), topk(0.2))


@pytest.mark.usefixtures("registered")
def test_a_registered_kernel_is_found_for_its_parts_and_device_only() -> None:
    assert kernels.find(residual(), topk(0.2), CPU) == Fused(residual(), topk(0.2))
    assert kernels.find(nothing(), topk(0.2), CPU) == Composed(nothing(), topk(0.2))
    assert kernels.find(residual(), dense(), CPU) == Composed(residual(), dense())
    assert kernels.find(residual(), topk(0.2), torch.device("cuda")) == Composed(residual(), topk(0.2))


@pytest.mark.usefixtures("registered")
def test_the_kernel_that_was_registered_last_is_asked_first() -> None:
    def later(memory: Memory, codec: Codec, device: torch.device) -> Compressor | None:
        return Composed(nothing(), dense())

    kernels.register(later)
    try:
        assert kernels.find(residual(), topk(0.2), CPU) == Composed(nothing(), dense())
    finally:
        kernels.unregister(later)
    assert kernels.find(residual(), topk(0.2), CPU) == Fused(residual(), topk(0.2))


@pytest.mark.usefixtures("registered")
def test_a_kernel_that_was_found_does_as_the_composed_one() -> None:
    kernel = kernels.find(residual(), topk(0.2), CPU)
    assert isinstance(kernel, Fused)
    check_all(kernel)


@pytest.mark.parametrize(
    ("memory", "codec"),
    [(residual(), topk(0.2)), (momentum_correction(), topk(0.2)), (residual("received"), lowrank(1))],
)
def test_the_composed_compressor_is_its_own_reference(memory: Memory, codec: Codec) -> None:
    check_all(kernels.find(memory, codec, CPU))


@pytest.mark.parametrize("broken", [SendsDouble, OwesInVain])
def test_a_kernel_that_differs_from_the_composed_one_is_caught(broken: type[Fused]) -> None:
    def maker(memory: Memory, codec: Codec, device: torch.device) -> Compressor | None:
        return broken(residual(), topk(1.0))

    kernels.register(maker)
    try:
        kernel = kernels.find(residual(), topk(1.0), CPU)
    finally:
        kernels.unregister(maker)
    assert isinstance(kernel, broken)
    with pytest.raises(AssertionError):
        check_all(kernel)


def test_a_kernel_leaves_in_the_residual_what_the_composed_one_leaves() -> None:
    x = Bucket(torch.tensor([3.0, -1.0, 2.0, -4.0]), Spec.pack([("w", (4,))]))
    owed = []
    for compressor in (Fused(residual(), topk(0.5)), Composed(residual(), topk(0.5))):
        kept = compressor.init(x.spec)
        done = drive(compressor.compress(x, kept, At()), nobody)
        compressor.settle(done, x, kept, At())
        owed.append(bucket_of(kept.memory, "residual").flat.tolist())
    assert owed == [[0.0, -1.0, 2.0, 0.0]] * 2
