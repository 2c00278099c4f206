"""CIFAR-10 in images of 16 × 16, a quarter of the work: what `benchmarks.accuracy` can train without a GPU.

    CIFAR10=DIR python -m benchmarks.accuracy --data benchmarks.halved:cifar10 --model resnet20

Images are shifted, mirrored and normalised as they always are; then every 2 × 2 pixels become their mean.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from torch import Tensor
from torch.nn import functional as F

from tightwire.data import Data, load
from tightwire.data.rows import Rows, Sample, labels_of

_FOLDER = "CIFAR10"  # a data set of one's own is given no folder, so the environment names it


class Halved(Rows):
    """The samples of another data set, half as high and half as wide."""

    def __init__(self, whole: Rows) -> None:
        self._whole = whole
        self.labels = labels_of(whole)

    def __len__(self) -> int:
        return len(self._whole)

    def batch(self, index_B: Tensor) -> Sample:
        """The same images, smaller."""
        x_BCHW, y_B = self._whole.batch(index_B)
        return F.avg_pool2d(x_BCHW, 2), y_B


def cifar10() -> Data:
    """CIFAR-10 from the folder that the environment names."""
    if _FOLDER not in os.environ:
        raise SystemExit(f"set {_FOLDER} to the folder of CIFAR-10's files")
    data = load("cifar10", Path(os.environ[_FOLDER]), augment="crop-flip")
    assert isinstance(data.train, Rows) and isinstance(data.test, Rows)
    channels, height, width = data.inputs
    inputs = (channels, height // 2, width // 2)
    return replace(data, name="cifar10, halved", train=Halved(data.train), test=Halved(data.test), inputs=inputs)
