"""CIFAR-10 from its official files: the binary version, or the pickled one, which is read without unpickling.

    data_batch_1.bin … data_batch_5.bin, test_batch.bin    a label, then 32×32 red, green and blue bytes; 10,000 times
    data_batch_1 … data_batch_5, test_batch                a dict with "labels" and "data", an array of 10,000 × 3072

Krizhevsky: Learning Multiple Layers of Features from Tiny Images. Technical report, University of Toronto, 2009.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tightwire.data.augment import AugmentName
from tightwire.data.errors import DataError, one_of
from tightwire.data.files import find, reading
from tightwire.data.idx import moments
from tightwire.data.names import describe
from tightwire.data.plain_pickle import Array, PickleError, load
from tightwire.data.rows import Samples
from tightwire.data.values import Data

PIXELS = 3 * 32 * 32
RECORDS = 10_000
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
WHERE = describe("cifar10").where


def cifar10(folder: Path | None, *, augment: AugmentName = "none") -> Data:
    """Images of 3×32×32, normalised by each channel's mean and deviation in the training set.

    ``augment="crop-flip"`` shifts and mirrors training images, as published results do.
    """
    one_of("augment", augment, ("none", "crop-flip"))
    if folder is None:
        raise DataError(f"cifar10 needs the folder of its files; {WHERE}")
    parts = [read_batch(_file(folder, name)) for name in BATCHES]
    for name, (labels, _) in zip(BATCHES, parts, strict=True):
        if len(labels) != len(parts[0][0]):
            raise DataError(
                f"{name} in {folder} holds {len(labels):,} images and {BATCHES[0]} {len(parts[0][0]):,}: one of them "
                f"is cut short; {WHERE}"
            )
    train_x = np.concatenate([images for _, images in parts[:5]])
    train_y = np.concatenate([labels for labels, _ in parts[:5]])
    scale = moments(train_x)
    train = Samples(torch.from_numpy(train_x), torch.from_numpy(train_y).long(), moments=scale, augment=augment)
    test = Samples(_tensor(parts[5][1]), _tensor(parts[5][0]).long(), moments=scale)
    return Data("cifar10", train, test, (3, 32, 32), 10, names=NAMES)


def _tensor(array: NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(np.array(array, order="C"))  # a copy: what was read from bytes is read-only


def _file(folder: Path, name: str) -> Path:
    folders = (folder, folder / "cifar-10-batches-bin", folder / "cifar10", folder / "cifar-10-batches-py")
    path = find(folders, (f"{name}.bin", name))
    if path is None:
        raise DataError(f"there is no {name}.bin in {folder}; {WHERE}")
    return path


def read_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The labels and images [N, 3, 32, 32] of one file."""
    with reading(path, WHERE):
        nbytes = path.stat().st_size
        if nbytes > 2 * RECORDS * PIXELS:
            raise DataError(f"{path} has {nbytes:,} bytes, too many for 10,000 images; {WHERE}")
        labels, images = _binary(path) if path.suffix == ".bin" else _pickled(path)
    if labels.size == 0 or labels.max() > 9:
        raise DataError(f"{path} holds labels that are not 0 to 9; {WHERE}")
    return labels, images.reshape(-1, 3, 32, 32)


def _binary(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    nbytes = path.stat().st_size
    if nbytes % (1 + PIXELS) or not 0 < nbytes <= RECORDS * (1 + PIXELS):
        raise DataError(f"{path} has {nbytes:,} bytes, which is not 1 to 10,000 images of 3,073; {WHERE}")
    records = np.fromfile(path, np.uint8).reshape(-1, 1 + PIXELS)
    return records[:, 0], records[:, 1:]


def _pickled(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    try:
        value = load(path.read_bytes())
    except PickleError as error:
        raise DataError(f"{path} is not a CIFAR-10 batch: {error}; {WHERE}") from error
    match value:
        case {"labels": list(labels), "data": Array(shape=(int(count), 3072)) as array} if (
            0 < count == len(labels) <= RECORDS
        ):
            if not all(isinstance(label, int) and 0 <= label <= 9 for label in labels):
                raise DataError(f"{path} holds labels that are not 0 to 9; {WHERE}")
            pixels = np.frombuffer(array.body, np.uint8).reshape(array.shape, order=array.order)
            return np.array(labels, np.uint8), pixels
    raise DataError(f"{path} is a pickle, but not of labels and data of 1 to 10,000 images; {WHERE}")
