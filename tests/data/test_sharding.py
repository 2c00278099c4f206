"""Shards: everything once; sorted ones show a worker only some classes, also through `wire.shard`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from tests.data.making import text_files
from tightwire.algebra.world import World
from tightwire.data import DataError, OwnShards, collate, load, shards
from tightwire.data.rows import labels_of
from tightwire.data.sharding import How
from tightwire.run.data import Share

labels_and_workers = st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=80), st.integers(1, 9)).filter(
    lambda case: len(case[0]) >= case[1]
)


def dataset(labels: list[int]) -> TensorDataset:
    return TensorDataset(torch.arange(len(labels)), torch.tensor(labels))


@given(labels_and_workers, st.sampled_from(["shuffled", "sorted"]))
def test_every_sample_goes_to_one_worker_and_sizes_differ_by_one(case: tuple[list[int], int], how: How) -> None:
    labels, workers = case
    parts = shards(dataset(labels), workers, how)
    assert sorted(index for part in parts for index in part.indices) == list(range(len(labels)))
    assert len(parts) == workers
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(labels_and_workers)
def test_sorted_shards_are_cuts_of_the_labels_in_order(case: tuple[list[int], int]) -> None:
    labels, workers = case
    parts = shards(dataset(labels), workers, "sorted")
    assert [int(label) for part in parts for label in labels_of(part)] == sorted(labels)


def test_sorted_digits_show_a_worker_three_or_four_classes() -> None:
    parts = shards(load("digits").train, 4, "sorted")
    seen = [set(labels_of(part).tolist()) for part in parts]
    assert set().union(*seen) == set(range(10))
    assert all(len(classes) in (3, 4) for classes in seen)


def test_shuffled_digits_show_a_worker_every_class_and_repeat() -> None:
    data = load("digits").train
    parts, again, other = shards(data, 4), shards(data, 4), shards(data, 4, seed=1)
    assert all(set(labels_of(part).tolist()) == set(range(10)) for part in parts)
    assert [p.indices for p in parts] == [p.indices for p in again] != [p.indices for p in other]


@given(st.integers(8, 90), st.integers(1, 4), st.integers(1, 6))
def test_a_wire_deals_each_worker_its_own_shard(samples: int, workers: int, batch: int) -> None:
    data = dataset([index * 10 // samples for index in range(samples)])
    parts = shards(data, workers, "sorted")
    seen: list[int] = []
    for rank in range(workers):
        loader = DataLoader(data, batch_size=batch, sampler=OwnShards(parts, batch))
        mine = [int(x) for one in Share(loader, World(rank, workers), 3, lambda *_: None) for x in one[0]]
        foreign = set(mine) - set(parts[rank].indices)
        assert len(foreign) <= (samples % (workers * batch) < workers and samples % (workers * batch) > 0)
        seen += mine
    assert set(seen) == set(range(samples))


def test_own_shards_come_in_a_new_order_every_epoch() -> None:
    data = load("digits").train
    sampler = OwnShards(shards(data, 4, "sorted"), 16)
    first, second = list(sampler), list(sampler)
    assert len(first) == len(sampler) == 1438
    assert first != second and sorted(first) == sorted(second)


def test_a_loader_over_a_shard_gives_whole_batches() -> None:
    part = shards(load("digits").train, 4, "sorted")[2]
    for fast, slow in zip(
        DataLoader(part, batch_size=50, collate_fn=collate), DataLoader(part, batch_size=50), strict=True
    ):
        assert torch.equal(fast[0], slow[0]) and torch.equal(fast[1], slow[1])


def test_wrong_questions_are_refused(tmp_path: Path) -> None:
    data = load("digits").train
    with pytest.raises(DataError, match="workers=0"):
        shards(data, 0)
    with pytest.raises(DataError, match="1438 samples cannot be dealt out to 2000 workers"):
        shards(data, 2000)
    with pytest.raises(DataError, match="choose from shuffled, sorted"):
        shards(data, 2, "by hand")  # type: ignore[arg-type]
    text_files(tmp_path)
    with pytest.raises(DataError, match="one class a sample"):
        shards(load("text", tmp_path, columns=2, bptt=5).train, 2, "sorted")
