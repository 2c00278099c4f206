"""Images of half the size: means of four pixels, labels as they were, and a folder that must be named."""

from __future__ import annotations

import pytest
import torch
from benchmarks.halved import Halved, cifar10

from tightwire.data.rows import Samples


def test_four_pixels_become_their_mean() -> None:
    x = torch.arange(2 * 3 * 4 * 6, dtype=torch.float32).view(2, 3, 4, 6)
    half = Halved(Samples(x, torch.tensor([7, 3])))
    (x_BCHW, y_B), (one, label) = half.batch(torch.tensor([1, 0])), half[0]
    assert x_BCHW.shape == (2, 3, 2, 3) and y_B.tolist() == [3, 7] and half.labels.tolist() == [7, 3]
    assert x_BCHW[1, 2, 1, 0] == x[0, 2, 2:4, 0:2].mean() and torch.equal(one, x_BCHW[1]) and label == 7


def test_the_folder_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CIFAR10", raising=False)
    with pytest.raises(SystemExit, match="set CIFAR10"):
        cifar10()
