"""MNIST and Fashion-MNIST from IDX files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.making import idx, idx_files
from tightwire.data import DataError, load
from tightwire.data import idx as reader
from tightwire.data.rows import Samples


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_files_are_read_as_written(name: str, packed: bool, tmp_path: Path) -> None:
    arrays = idx_files(tmp_path, packed=packed)
    data = load(name, tmp_path)
    assert (len(data.train), len(data.test), data.inputs, data.classes) == (7, 4, (1, 28, 28), 10)  # type: ignore[arg-type]
    assert isinstance(data.test, Samples)
    assert np.array_equal(data.test.x[:, 0].numpy(), arrays["t10k-images-idx3-ubyte"])
    assert data.test.labels.tolist() == arrays["t10k-labels-idx1-ubyte"].tolist()


def test_the_training_set_decides_the_normalisation(tmp_path: Path) -> None:
    arrays = idx_files(tmp_path)
    data = load("mnist", tmp_path)
    assert isinstance(data.train, Samples) and isinstance(data.test, Samples)
    x, _ = data.train.batch(torch.arange(7))
    assert x.mean().item() == pytest.approx(0, abs=1e-5) and x.std(correction=0).item() == pytest.approx(1, abs=1e-5)
    train = arrays["train-images-idx3-ubyte"].astype(np.float64)
    wanted = (arrays["t10k-images-idx3-ubyte"] - train.mean()) / train.std()
    assert np.allclose(data.test.batch(torch.arange(4))[0][:, 0].numpy(), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "inside"), [("mnist", "MNIST/raw"), ("fashion-mnist", "FashionMNIST/raw"), ("mnist", "mnist")]
)
def test_files_are_found_where_others_put_them(name: str, inside: str, tmp_path: Path) -> None:
    (tmp_path / inside).mkdir(parents=True)
    idx_files(tmp_path / inside)
    assert len(load(name, tmp_path).train) == 7  # type: ignore[arg-type]


def test_fashion_mnist_needs_no_folder_where_debian_installed_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader, "DEBIAN", tmp_path / "not installed")
    with pytest.raises(DataError, match="dataset-fashion-mnist"):
        load("fashion-mnist")
    idx_files(tmp_path, packed=True)
    monkeypatch.setattr(reader, "DEBIAN", tmp_path)
    assert len(load("fashion-mnist").train) == 7  # type: ignore[arg-type]


def test_mnist_needs_a_folder() -> None:
    with pytest.raises(DataError, match="needs the folder"):
        load("mnist")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (idx(np.zeros((7, 32, 32), np.uint8)), "7×32×32"),
        (idx(np.zeros((0, 28, 28), np.uint8)), "0×28×28"),
        (idx(np.zeros(7, np.uint8)), "not an IDX file of bytes in 3 dimensions"),
        (idx(np.zeros((7, 28, 28), np.uint8)) + b"!", "more than"),
        (idx(np.zeros((7, 28, 28), np.uint8))[:-1], "only 5,487 of"),
        (bytes((0, 0, 8, 3)) + b"\xff" * 4 + bytes((0, 0, 0, 28)) * 2, "only 0 of"),
        (idx(np.zeros((6, 28, 28), np.uint8)), "6 train images and 7 labels"),
        (b"<html>404</html>", "not an IDX file"),
    ],
)  # fmt: skip
def test_images_that_are_not_what_they_say_are_refused(body: bytes, says: str, tmp_path: Path) -> None:
    idx_files(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(body)
    with pytest.raises(DataError, match=says):
        load("mnist", tmp_path)


def test_labels_of_another_data_set_are_refused(tmp_path: Path) -> None:
    idx_files(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(np.array([1, 2, 26, 3], np.uint8)))
    with pytest.raises(DataError, match="go up to 26"):
        load("mnist", tmp_path)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """80 MB of zeros in 80 kB: only what the header promises, and a byte, is ever unpacked."""
    idx_files(tmp_path, packed=True)
    bomb = gzip.compress(idx(np.zeros((7, 28, 28), np.uint8)) + bytes(80_000_000), compresslevel=1)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(bomb)
    with pytest.raises(DataError, match="more than the 5,488 bytes"):
        load("mnist", tmp_path)
