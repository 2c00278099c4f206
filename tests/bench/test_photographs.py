"""Images with channels last: the same pixels and labels, and a folder that must be named."""

from __future__ import annotations

import pytest
import torch
from benchmarks.photographs import whole

from tightwire.data import Data
from tightwire.data.rows import Rows, Samples

X_NCHW = torch.arange(2 * 3 * 4 * 6, dtype=torch.float32).view(2, 3, 4, 6)


@pytest.fixture(autouse=True)
def _read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set of two images in place of CIFAR-10's files."""
    samples = Samples(X_NCHW, torch.tensor([7, 3]))
    data = Data("cifar10", samples, samples, (3, 4, 6), 10)
    monkeypatch.setattr("benchmarks.photographs.load", lambda *_, **__: data)
    monkeypatch.setenv("CIFAR10", "anywhere")


def test_channels_lie_last_and_are_the_same() -> None:
    data = whole()
    assert isinstance(data.train, Rows) and data.inputs == (3, 4, 6)
    (x_BCHW, y_B), (one, label) = data.train.batch(torch.tensor([1, 0])), data.train[0]
    assert torch.equal(x_BCHW, X_NCHW.flip(0)) and y_B.tolist() == [3, 7]
    assert x_BCHW.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(one, X_NCHW[0]) and label == 7 and data.train.labels.tolist() == [7, 3] and len(data.train) == 2


def test_the_folder_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CIFAR10")
    with pytest.raises(SystemExit, match="set CIFAR10"):
        whole()
