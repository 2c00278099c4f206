"""Between a device and the host: copies run beside what is computed, and nothing is used before it is there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tightwire.links import frames
from tightwire.links.recycle import Recycler
from tightwire.links.staging import CudaCopies, Staging, staging_for

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
CYCLES = 2_000_000_000  # about a second
NUMEL = 16 << 20


class Later:
    """A copy that ends when somebody waits for it."""

    def __init__(self, source: Tensor, into: Tensor) -> None:
        self._copy = (source, into)
        self.done = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        source, into = self._copy
        into.copy_(source)
        self.done = True


class LateCopies:
    """A device whose copies are late."""

    def __init__(self) -> None:
        self.marks: list[Later] = []

    def lift(self, tensor: Tensor) -> tuple[Tensor, Later]:
        return self._start(tensor)

    def _start(self, tensor: Tensor) -> tuple[Tensor, Later]:
        host = torch.full_like(tensor, 0xBD)  # noise
        self.marks.append(Later(tensor, host))
        return host, self.marks[-1]

    def lower(self, tensor: Tensor) -> tuple[Tensor, Later, Tensor]:
        return *self._start(tensor), tensor

    def follow(self, mark: Later, tensor: Tensor) -> None:
        mark.synchronize()


def test_a_cpus_tensors_stay_where_they_are() -> None:
    staging, tensor = staging_for(torch.device("cpu")), torch.ones(4)
    assert staging.lift(tensor).here() is tensor and staging.lower(tensor).here() is tensor
    assert staging.lift(tensor).part(1, 2).here().data_ptr() == tensor[1:].data_ptr()


def test_each_copy_is_waited_for_by_who_uses_it_and_no_other() -> None:
    copies = LateCopies()
    staging = Staging(copies)
    first, second = staging.lift(torch.ones(4)), staging.lift(torch.full((2,), 2.0))
    assert [mark.done for mark in copies.marks] == [False, False], "nobody has waited"
    assert first.part(2, 2).here().equal(torch.ones(2))
    assert [mark.done for mark in copies.marks] == [True, False]
    assert second.here().equal(torch.full((2,), 2.0))


class Unending(LateCopies):
    """Copies that nobody sees end, and that hold nothing."""

    def lower(self, tensor: Tensor) -> tuple[Tensor, Later, Tensor]:
        self.marks.append(Later(torch.zeros(0), torch.zeros(0)))
        return tensor.clone(), self.marks[-1], tensor


def test_memory_is_not_used_again_while_a_copy_reads_it() -> None:
    recycler, copies = Recycler(), Unending()
    staging = Staging(copies)
    staging.lower(torch.from_numpy(recycler.take(1 << 20)[:8]))
    assert recycler.take(1 << 20).size and recycler.blocks == 2, "the first block is still being read"
    copies.marks[0].done = True
    staging.lift(torch.ones(1))  # whatever is done next lets go of it
    assert recycler.take(1 << 20).size and recycler.take(1 << 20).size and recycler.blocks == 2


@pytest.mark.gpu
@needs_gpu
def test_what_arrives_is_what_left() -> None:
    staging = staging_for(torch.device("cuda", 0))
    try:
        for numel in (0, 3, NUMEL):
            there = torch.randn(numel, device="cuda")
            host = staging.lift(there).here()
            assert host.equal(there.cpu()) and (host.is_pinned() or numel == 0)
            assert staging.lower(host).here().equal(there)
            assert staging.lower(host.clone()).here().equal(there), "memory that is not pinned"
        (room,) = frames.room_for(frames.expect(frames.announce([torch.empty(NUMEL)])))
        assert room.is_pinned(), "large messages are received where a GPU reads by itself"
    finally:
        frames._blocks[:] = [Recycler()]


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("way", ["lift", "lower"])
def test_a_copy_runs_while_a_kernel_runs(way: str) -> None:
    device = torch.device("cuda", 0)
    copies = CudaCopies(device)
    staging = Staging(copies)
    there, host = torch.ones(NUMEL, device=device), torch.ones(NUMEL).pin_memory()
    getattr(staging, way)(there if way == "lift" else host).here()  # memory is there the next time
    torch.cuda.synchronize()
    began, ended, copied = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    if way == "lift":
        moving = staging.lift(there)  # waits for what was queued before it, and not for the kernel
    began.record()
    torch.cuda._sleep(CYCLES)
    ended.record()
    if way == "lower":
        moving = staging.lower(host)
    (copies.up if way == "lift" else copies.down).record_event(copied)
    copied.synchronize()
    assert not ended.query(), "the copy has ended, and the kernel has not"
    ended.synchronize()
    assert copied.elapsed_time(ended) > 0
    if way == "lower":
        assert began.elapsed_time(copied) > 0, "it began after the kernel had been queued, and ended before it"
    assert bool((moving.here() == 1).all())


@pytest.mark.gpu
@needs_gpu
def test_lifting_waits_for_what_fills_the_tensor_and_using_for_what_lowers_it() -> None:
    device = torch.device("cuda", 0)
    staging = Staging(CudaCopies(device))
    there = torch.zeros(NUMEL, device=device)
    torch.cuda._sleep(CYCLES // 20)
    there.fill_(3.0)  # queued behind a kernel that takes its time
    host = staging.lift(there).here()
    assert bool((host == 3).all())
    lowered = staging.lower(host).here() + 1
    assert bool((lowered == 4).all())
