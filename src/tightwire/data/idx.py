"""MNIST and Fashion-MNIST from their official IDX files, plain or gzipped.

    0  0x00 0x00 0x08 (bytes) and the number of dimensions
    4  each dimension, 32 bits, big-endian
    …  the bytes

LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document Recognition. Proc. IEEE 1998.
Xiao, Rasul, Vollgraf: Fashion-MNIST. arXiv 1708.07747.
"""

from __future__ import annotations

import gzip
import struct
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from tightwire.data.errors import DataError
from tightwire.data.files import find, read_at_most, reading
from tightwire.data.names import describe
from tightwire.data.rows import Samples
from tightwire.data.values import Data

SIDE = 28
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def mnist(folder: Path | None) -> Data:
    """Images of 1×28×28, normalised by mean and deviation of the training set."""
    if folder is None:
        raise DataError(f"mnist needs the folder of its files; {describe('mnist').where}")
    return _images("mnist", folder, (folder, folder / "mnist", folder / "MNIST" / "raw"))


def fashion_mnist(folder: Path | None) -> Data:
    """Images of 1×28×28, normalised likewise; without a folder, from where Debian installs them."""
    if folder is None and not DEBIAN.is_dir():
        raise DataError(f"fashion-mnist needs the folder of its files; {describe('fashion-mnist').where}")
    base = folder or DEBIAN
    return _images("fashion-mnist", base, (base, base / "fashion-mnist", base / "FashionMNIST" / "raw"), CLOTHES)


def _images(name: str, base: Path, folders: tuple[Path, ...], names: tuple[str, ...] = ()) -> Data:
    where = describe(name).where

    def part(stem: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        images, labels = (
            read_idx(_file(base, folders, f"{stem}-{kind}", where), dimensions, where)
            for kind, dimensions in (("images-idx3-ubyte", 3), ("labels-idx1-ubyte", 1))
        )
        if len(images) != len(labels):
            raise DataError(f"{base} has {len(images)} {stem} images and {len(labels)} labels; {where}")
        if labels.max() > 9:
            raise DataError(f"the {stem} labels in {base} go up to {labels.max()}, not 9: another data set; {where}")
        return images[:, None], labels

    (train_x, train_y), (test_x, test_y) = part("train"), part("t10k")
    scale = moments(train_x)
    sets = [
        Samples(torch.from_numpy(x), torch.from_numpy(y.astype(np.int64)), moments=scale)
        for x, y in ((train_x, train_y), (test_x, test_y))
    ]
    return Data(name, sets[0], sets[1], (1, SIDE, SIDE), 10, names=names)


def moments(x_NCHW: NDArray[np.uint8]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation of each channel, [C, 1, 1], from histograms: exact, and without a copy in floats."""
    count_CV = np.stack([np.bincount(x_NCHW[:, c].ravel(), minlength=256) for c in range(x_NCHW.shape[1])])
    part_CV = count_CV / count_CV.sum(1, keepdims=True)
    mean_C = part_CV @ np.arange(256.0)
    std_C = np.sqrt(np.maximum(part_CV @ np.arange(256.0) ** 2 - mean_C**2, 1.0))
    mean, std = (torch.from_numpy(value).float()[:, None, None] for value in (mean_C, std_C))
    return mean, std


def _file(base: Path, folders: tuple[Path, ...], name: str, where: str) -> Path:
    dotted = name.replace("-idx", ".idx")
    path = find(folders, (name, f"{name}.gz", dotted, f"{dotted}.gz"))
    if path is None:
        raise DataError(f"there is no {name} or {name}.gz in {base}; {where}")
    return path


def read_idx(path: Path, dimensions: int, where: str) -> NDArray[np.uint8]:
    """The array of an IDX file of bytes: images of 28×28 (three dimensions) or labels (one)."""
    head_nbytes = 4 + 4 * dimensions
    with reading(path, where), _opened(path) as file:
        head = bytes(read_at_most(file, head_nbytes))
        if head[:4] != bytes((0, 0, 8, dimensions)) or len(head) < head_nbytes:
            raise DataError(f"{path} is not an IDX file of bytes in {dimensions} dimensions; {where}")
        shape = struct.unpack(f">{dimensions}I", head[4:])
        if shape[1:] != (SIDE, SIDE)[: dimensions - 1] or shape[0] == 0:
            raise DataError(f"{path} holds {'×'.join(map(str, shape))} bytes, not images of 28×28; {where}")
        body = read_at_most(file, prod(shape) + 1)
    if len(body) != prod(shape):
        much = "more than" if len(body) > prod(shape) else f"only {len(body):,} of"
        raise DataError(f"{path} holds {much} the {prod(shape):,} bytes its header promises; {where}")
    return np.frombuffer(body, np.uint8).reshape(shape)


def _opened(path: Path) -> BinaryIO:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]
