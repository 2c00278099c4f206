"""The digits embedded in scikit-learn: 1,797 images of 8×8 pixels from 0 to 16. The default data set.

Alpaydin, Kaynak: Optical Recognition of Handwritten Digits. UCI Machine Learning Repository, 1998 (its test part).
"""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tightwire.data.errors import DataError, one_of
from tightwire.data.files import reading
from tightwire.data.names import describe
from tightwire.data.rows import Samples
from tightwire.data.values import Data

TEST_PART = 0.2


def digits(folder: Path | None, *, shape: Literal["flat", "image"] = "flat", seed: int = 0) -> Data:
    """64 features from 0 to 1, or images of 1×8×8; a fifth of each class, drawn with ``seed``, is the test set."""
    if folder is not None:
        raise DataError(f"digits comes with scikit-learn and reads no folder ({folder}); leave the folder out")
    one_of("shape", shape, ("flat", "image"))
    pixels_N64, labels_N = _embedded()
    inputs = (64,) if shape == "flat" else (1, 8, 8)
    x = torch.from_numpy(pixels_N64 / np.float32(16)).reshape(-1, *inputs)
    y = torch.from_numpy(labels_N)
    test = held_out(labels_N, seed)
    train = np.setdiff1d(np.arange(len(labels_N)), test)
    return Data("digits", Samples(x[train], y[train]), Samples(x[test], y[test]), inputs, 10)


def held_out(labels_N: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Which samples are the test set: a fifth of each class."""
    random = np.random.default_rng(seed)
    of_class = [random.permutation(np.flatnonzero(labels_N == label)) for label in np.unique(labels_N)]
    return np.sort(np.concatenate([one[: round(TEST_PART * len(one))] for one in of_class]))


def _embedded() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    spec = find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"the digits are embedded in scikit-learn, which is not installed; {describe('digits').where}")
    # Its file, not its loader: importing scikit-learn takes a second in every worker.
    path = Path(spec.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    with reading(path, describe("digits").where), gzip.open(path, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.float32)
    return table[:, :64], table[:, 64].astype(np.int64)
