"""Picking many samples at once gives what picking one after another gives."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from tightwire.data import collate
from tightwire.data.rows import Picked, Samples

SAMPLES = Samples(
    torch.arange(40, dtype=torch.uint8).reshape(10, 4),
    torch.arange(10),
    moments=(torch.tensor(3.0), torch.tensor(2.0)),
)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_many_are_one_by_one(indices: list[int]) -> None:
    together = SAMPLES.__getitems__(indices)
    assert len(together) == len(indices)
    for (x, y), index in zip(together, indices, strict=True):
        assert torch.equal(x, SAMPLES[index][0]) and torch.equal(y, SAMPLES[index][1])
        assert torch.equal(x, (torch.arange(4 * index, 4 * index + 4) - 3) / 2)
    assert torch.equal(together[0][0], SAMPLES[indices[0]][0])


@pytest.mark.parametrize("fetch", [None, collate])
def test_loaders_give_the_same_batches_with_either_collate(fetch: object) -> None:
    loader = DataLoader(SAMPLES, batch_size=4, collate_fn=fetch)  # type: ignore[arg-type]
    batches = list(loader)
    assert [len(y) for _, y in batches] == [4, 4, 2]
    assert torch.equal(torch.cat([y for _, y in batches]), torch.arange(10))
    assert all(isinstance(batch, list) and len(batch) == 2 for batch in batches)


def test_other_data_sets_are_collated_as_usual() -> None:
    x, y = collate([(torch.zeros(2), 1), (torch.ones(2), 0)])
    assert x.tolist() == [[0, 0], [1, 1]] and y.tolist() == [1, 0]


def test_indices_end_where_they_should() -> None:
    assert torch.equal(SAMPLES[-1][0], SAMPLES[9][0])
    for outside in (10, -11):
        with pytest.raises(IndexError):
            SAMPLES[outside]
    assert isinstance(SAMPLES.__getitems__([1]), Picked)


def test_samples_travel_to_the_processes_of_a_loader() -> None:
    copy = pickle.loads(pickle.dumps(SAMPLES))
    assert torch.equal(copy.batch(torch.arange(10))[0], SAMPLES.batch(torch.arange(10))[0])


def test_samples_on_another_device_are_picked_and_normalised_there_and_their_labels_stay_for_those_who_look() -> None:
    far = SAMPLES.on("meta")
    x_B, y_B = far.batch(torch.tensor([1, 5, 5]))
    assert (x_B.shape, x_B.dtype, x_B.device.type, y_B.device.type) == ((3, 4), torch.float32, "meta", "meta")
    assert far.labels is SAMPLES.labels and SAMPLES.x.device.type == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_picks_the_same_and_draws_its_own() -> None:
    near = SAMPLES.on("cuda")
    for one, other in zip(near.batch(torch.tensor([3, 0])), SAMPLES.batch(torch.tensor([3, 0])), strict=True):
        assert one.is_cuda and torch.equal(one.cpu(), other)
    images = Samples(torch.arange(3 * 64, dtype=torch.uint8).view(1, 3, 8, 8), torch.zeros(1).long(),
                     augment="crop-flip").on("cuda")  # fmt: skip
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(images.batch(torch.zeros(32).long())[0].cpu())
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
