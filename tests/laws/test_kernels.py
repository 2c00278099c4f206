"""The seat of kernels: a fused compressor is found in place of the composed one, and must do the same."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from tests.laws.breaking import nobody, unshrunk
from tightwire import kernels
from tightwire.algebra.codec import Ask, Codec, Payload, SparseSent, drive
from tightwire.algebra.compressor import Composed, Compressed, Compressor, Kept
from tightwire.algebra.errors import NotFiniteError
from tightwire.algebra.memory import Memory, bucket_of
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.choose import by_dimension
from tightwire.codecs.dense import dense
from tightwire.codecs.half import half
from tightwire.codecs.lowrank import lowrank
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import TopK, topk
from tightwire.kernels.cpu_topk import FusedTopK
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

    def expand_(self, x: Bucket, payloads: Sequence[Payload], kept: Kept, at: At) -> None:
        Composed(self.memory, self.codec).expand_(x, payloads, kept, at)

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


def test_without_a_kernel_the_composed_compressor_is_found() -> None:
    assert kernels.find(residual(), onebit(), CPU) == Composed(residual(), onebit())
    assert kernels.find(nothing(), topk(0.2), CPU) == Composed(nothing(), topk(0.2))


@pytest.mark.usefixtures("registered")
def test_a_registered_kernel_is_found_for_its_parts_and_device_only() -> None:
    assert kernels.find(residual(), topk(0.2), CPU) == Fused(residual(), topk(0.2))
    assert kernels.find(nothing(), topk(0.2), CPU) == Composed(nothing(), topk(0.2))
    assert kernels.find(residual(), dense(), CPU) == Composed(residual(), dense())
    assert not isinstance(kernels.find(residual(), topk(0.2), torch.device("cuda")), Fused)


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


FUSED = [
    (residual(), topk(0.2)),
    (momentum_correction(0.5), topk(0.1, values="log8", gaps="rice")),
    (momentum_correction(masking="off", form="nesterov"), topk(0.3)),
    (momentum_correction(), by_dimension(rest=topk(0.2))),
    (residual(), by_dimension(vectors=half(), rest=topk(0.05, values="float16"))),
]


@pytest.mark.parametrize(("memory", "codec"), FUSED, ids=lambda part: type(part).__name__)
def test_the_cpu_kernel_does_as_the_composed_one(memory: Memory, codec: Codec) -> None:
    pytest.importorskip("numba")
    kernel = kernels.find(memory, codec, CPU)
    assert isinstance(kernel, FusedTopK)
    check_all(replace(kernel, from_numel=0))


@pytest.mark.parametrize(
    ("memory", "codec"),
    [
        FUSED[3],
        (momentum_correction(), by_dimension(rest=topk(0.01))),
        (momentum_correction(), by_dimension(vectors=half(), rest=topk(0.01, values="log8", gaps="rice"))),
        (residual(), topk(0.0625)),
    ],
)
def test_the_cpu_kernel_agrees_bit_for_bit_over_many_steps_of_a_large_bucket(memory: Memory, codec: Codec) -> None:
    pytest.importorskip("numba")
    spec = Spec.pack([("w", (300, 500)), ("b", (300,)), ("few", (3, 1)), ("c", (64, 3, 7, 7))])
    fast, slow = kernels.find(memory, codec, CPU), Composed(memory, codec)
    kept, sums = (fast.init(spec), slow.init(spec)), list[Tensor]()
    for step in range(12):
        generator = torch.Generator().manual_seed(step)
        flat = torch.randn(spec.numel, generator=generator) * 10.0 ** (step % 3 - 1)  # the edge is missed now and then
        wires = []
        for compressor, state in zip((fast, slow), kept, strict=True):
            x = Bucket(flat.clone(), spec)
            done = drive(compressor.compress(x, state, At(step=step)), nobody)
            compressor.expand_(x, [done.payload, Payload(done.payload.wire.clone())], state, At(step=step))
            compressor.settle(done, x, state, At(step=step))
            wires.append(done.payload.wire)
            sums.append(x.flat)
        assert torch.equal(*wires)
        assert torch.equal(*sums[-2:])
        for field in kept[1].memory:
            assert torch.equal(bucket_of(kept[0].memory, field).flat, bucket_of(kept[1].memory, field).flat)


def test_loose_gradients_are_read_where_they_lie() -> None:
    pytest.importorskip("numba")
    spec = Spec.pack([("w", (300, 300)), ("b", (300,))])
    memory, codec = momentum_correction(), by_dimension(rest=topk(0.01))
    wires = []
    for loose in (True, False):
        kernel = kernels.find(memory, codec, CPU)
        x = Bucket.zeros(spec)
        for seed, key in enumerate(("w", "b")):
            tensor = torch.randn(x[key].shape, generator=torch.Generator().manual_seed(seed))
            x.loose[key] = (tensor, 0.25)
        if not loose:
            x.fasten_()
        wires.append(drive(kernel.compress(x, kernel.init(spec), At()), nobody).payload.wire)
        assert not x.loose
    assert torch.equal(*wires)


def test_a_gradient_that_is_not_finite_never_enters_the_memory() -> None:
    pytest.importorskip("numba")
    spec = Spec.pack([("w", (300, 300)), ("b", (300,))])
    kernel = kernels.find(momentum_correction(), by_dimension(rest=topk(0.01)), CPU)
    kept = kernel.init(spec)
    x = Bucket.zeros(spec)
    x["b"][7] = float("nan")
    with pytest.raises(NotFiniteError, match="'b'"):
        drive(kernel.compress(x, kept, At()), nobody)
    assert bool(bucket_of(kept.memory, "residual").flat.isfinite().all())


@pytest.mark.parametrize(
    ("memory", "codec"),
    [(residual(), topk(0.2)), (momentum_correction(), topk(0.2)), (residual("received"), lowrank(1))],
)
def test_the_composed_compressor_is_its_own_reference(memory: Memory, codec: Codec) -> None:
    check_all(Composed(memory, codec))


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
