"""The embedded digits: the same as scikit-learn's, split by class, reproducible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.data import Data, DataError, load
from tightwire.data.digits import _embedded, held_out
from tightwire.data.rows import Samples


def parts(data: Data) -> tuple[Samples, Samples]:
    assert isinstance(data.train, Samples) and isinstance(data.test, Samples)
    return data.train, data.test


def test_they_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, labels = datasets.load_digits(return_X_y=True)
    ours, ours_labels = _embedded()
    assert np.array_equal(ours, pixels) and np.array_equal(ours_labels, labels)


def test_inputs_lie_between_0_and_1_and_nothing_is_lost() -> None:
    train, test = parts(load("digits"))
    assert len(train) + len(test) == 1797
    assert train.x.min() == 0 and train.x.max() == 1
    assert train.x.dtype == torch.float32 and train.labels.dtype == torch.int64


def test_images_are_the_features_in_rows() -> None:
    flat, images = load("digits"), load("digits", shape="image")
    assert (flat.inputs, images.inputs) == ((64,), (1, 8, 8))
    assert torch.equal(parts(flat)[0].x, parts(images)[0].x.flatten(1))


@given(st.integers(0, 2**31))
def test_every_class_gives_a_fifth_to_the_test_set_for_any_seed(seed: int) -> None:
    _, labels = _embedded()
    test = held_out(labels, seed)
    assert len(set(test.tolist())) == len(test)
    for label in range(10):
        assert (labels[test] == label).sum() == round(0.2 * (labels == label).sum())


def test_train_and_test_are_disjoint() -> None:
    train, test = parts(load("digits"))
    rows = {row.numpy().tobytes() for row in test.x}
    assert len(rows) > 300
    assert not any(row.numpy().tobytes() in rows for row in train.x)


def test_the_seed_alone_decides() -> None:
    assert torch.equal(parts(load("digits"))[1].x, parts(load("digits", seed=0))[1].x)
    assert not torch.equal(parts(load("digits"))[1].x, parts(load("digits", seed=1))[1].x)


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(DataError, match="reads no folder"):
        load("digits", Path("/data"))
    with pytest.raises(DataError, match="choose from flat, image"):
        load("digits", shape="round")


def test_without_scikit_learn_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightwire.data.digits.find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install scikit-learn"):
        load("digits")
