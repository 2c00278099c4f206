"""`wire.shard`: one order for everybody, dealt out without loss, resumable anywhere."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, TensorDataset

from tightwire.algebra.world import World
from tightwire.run.data import Share


def drawn(_: Any, weight: float) -> None:
    assert weight > 0


def share(samples: int, batch: int, rank: int, size: int, **options: Any) -> Share[list[Tensor]]:
    loader = DataLoader(TensorDataset(torch.arange(samples)), batch_size=batch, **options)
    return Share(loader, World(rank, size), seed=5, drawn=drawn)


def epoch(one: Share[list[Tensor]]) -> list[list[int]]:
    return [batch[0].tolist() for batch in one]


@given(st.integers(1, 60), st.integers(1, 7), st.integers(1, 5), st.booleans())
def test_workers_together_see_every_sample_once(samples: int, batch: int, size: int, shuffle: bool) -> None:
    parts = [epoch(share(samples, batch, rank, size, shuffle=shuffle)) for rank in range(size)]
    assert len({len(part) for part in parts}) == 1, "every rank must get the same number of batches"
    for together in zip(*parts, strict=True):
        assert max(map(len, together)) - min(map(len, together)) <= 1
        assert min(map(len, together)) >= 1
    seen = [sample for part in parts for one in part for sample in one]
    repeats = len(seen) - samples
    assert set(seen) == set(range(samples))
    assert 0 <= repeats < size, "only a tail smaller than the world is filled up"


def test_workers_together_see_what_one_with_a_large_batch_sees() -> None:
    alone = epoch(share(40, 8, 0, 1, shuffle=True))
    parts = [epoch(share(40, 2, rank, 4, shuffle=True)) for rank in range(4)]
    assert alone == [[s for part in parts for s in part[i]] for i in range(len(alone))]


def test_epochs_differ_and_seeds_repeat() -> None:
    one, two = share(20, 4, 0, 1, shuffle=True), share(20, 4, 0, 1, shuffle=True)
    first, second = epoch(one), epoch(one)
    assert first != second
    assert [epoch(two), epoch(two)] == [first, second]


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(9)
    wanted = torch.rand(3)
    torch.manual_seed(9)
    one = share(20, 4, 0, 2, shuffle=True)
    assert len(one) == 3
    assert torch.equal(torch.rand(3), wanted)


@given(st.integers(5, 60), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(0, 10))
def test_a_run_goes_on_with_another_number_of_workers(
    samples: int, batch: int, size: int, other: int, stop: int
) -> None:
    before = [share(samples, batch, rank, size, shuffle=True) for rank in range(size)]
    seen: list[int] = []
    for one in before:
        for number, part in enumerate(one):
            if number == stop:
                break
            seen += part[0].tolist()
    counted = share(samples, batch, 0, size, shuffle=True)
    for number, _ in enumerate(counted):
        if number + 1 == stop:
            break
    position = counted.position() if stop else {"epoch": 0, "consumed": 0}
    after = [share(samples, batch, rank, other, shuffle=True) for rank in range(other)]
    if position["epoch"] == 0:
        for one in after:
            one.seek(position)
            seen += [s for part in epoch(one) for s in part]
        assert set(seen) == set(range(samples))


def test_weights_make_the_mean_over_ranks_the_mean_over_samples() -> None:
    def one(rank: int) -> list[tuple[list[int], float]]:
        noted: list[float] = []
        loader = DataLoader(TensorDataset(torch.arange(14)), batch_size=2)
        dealt = Share(loader, World(rank, 4), 0, lambda _, weight: noted.append(weight))
        return list(zip([batch[0].tolist() for batch in dealt], noted, strict=True))

    tails = [one(rank)[-1] for rank in range(4)]
    mean = sum(sum(samples) / len(samples) * weight for samples, weight in tails) / 4
    everything = [s for samples, _ in tails for s in samples]
    assert mean == pytest.approx(sum(everything) / len(everything))
    assert len({len(samples) for samples, _ in tails}) == 2, "the tail must be uneven for this to mean anything"


def test_ready_made_batches_are_dealt_out_whole() -> None:
    def part(rank: int) -> list[list[int]]:
        sampler = BatchSampler(SequentialSampler(range(12)), 2, drop_last=False)
        loader = DataLoader(TensorDataset(torch.arange(12)), batch_sampler=sampler)
        return epoch(Share(loader, World(rank, 3), 0, drawn))

    assert [part(rank) for rank in range(3)] == [[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]


def test_workers_of_the_loader_change_nothing() -> None:
    with_processes = epoch(share(20, 3, 1, 2, shuffle=True, num_workers=2, multiprocessing_context="forkserver"))
    assert with_processes == epoch(share(20, 3, 1, 2, shuffle=True))


class Stream(IterableDataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


@given(st.integers(0, 50), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_streams_are_dealt_out_evenly(count: int, batch: int, size: int, drop_last: bool) -> None:
    def part(rank: int, skip: int = 0) -> list[list[int]]:
        loader = DataLoader(Stream(count), batch_size=batch, drop_last=drop_last)
        one = Share(loader, World(rank, size), 0, drawn)
        one.seek({"epoch": 0, "consumed": skip})
        return [b.tolist() for b in one]

    parts = [part(rank) for rank in range(size)]
    seen = sorted(s for p in parts for b in p for s in b)
    full = count // (batch * size) * batch * size
    assert len({len(p) for p in parts}) == 1
    assert len({tuple(map(len, p)) for p in parts}) == 1, "ranks must never differ in batch size"
    assert seen == sorted(set(seen))
    assert len(seen) == full if drop_last else count - len(seen) < size
    if len(parts[0]) > 1:
        assert part(0, skip=1) == parts[0][1:]
