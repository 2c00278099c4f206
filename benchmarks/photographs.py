"""CIFAR-10 as two cores can train it: what `benchmarks.accuracy` reads without a GPU.

    CIFAR10=DIR python -m benchmarks.accuracy --data benchmarks.photographs:whole --model resnet20

Images are shifted, mirrored and normalised as they always are. Then the channels of a pixel are laid side by side, in
which a CPU computes the convolutions of small residual networks a fifth faster.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tightwire.data import Data, load
from tightwire.data.rows import Rows, Sample, labels_of

_FOLDER = "CIFAR10"  # a data set of one's own is given no folder, so the environment names it


class ChannelsLast(Rows):
    """The images of another data set, with the channels of a pixel next to each other."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.labels = labels_of(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, index_B: Tensor) -> Sample:
        """The same images, laid out anew."""
        x_BCHW, y_B = self._rows.batch(index_B)
        return x_BCHW.contiguous(memory_format=torch.channels_last), y_B


def whole() -> Data:
    """CIFAR-10 in whole images, channels last."""
    if _FOLDER not in os.environ:
        raise SystemExit(f"set {_FOLDER} to the folder of CIFAR-10's files")
    data = load("cifar10", Path(os.environ[_FOLDER]), augment="crop-flip")
    assert isinstance(data.train, Rows) and isinstance(data.test, Rows)
    return replace(data, train=ChannelsLast(data.train), test=ChannelsLast(data.test))
