"""CIFAR-10 from both official versions; the pickled one without unpickling."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.data.making import cifar_arrays, cifar_binary, cifar_files, cifar_pickle
from tightwire.data import DataError, load
from tightwire.data.augment import crop_flip
from tightwire.data.rows import Samples


def modern(protocol: int, order: Literal["C", "F"] = "C") -> Any:
    def made(labels: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> bytes:
        pixels = np.array(pixels, order=order)
        return pickle.dumps({b"labels": labels.tolist(), b"data": pixels, b"filenames": [b"a.png"]}, protocol)

    return made


@pytest.mark.parametrize(
    ("made", "suffix"),
    [
        (cifar_binary, ".bin"),
        (cifar_pickle, ""),
        (modern(2), ""),
        (modern(2, "F"), ""),
        (modern(3), ""),
        (modern(4), ""),
    ],
    ids=["binary", "official pickle", "protocol 2", "by columns", "protocol 3", "protocol 4"],
)
def test_files_are_read_as_written(made: Any, suffix: str, tmp_path: Path) -> None:
    arrays = cifar_files(tmp_path, made, suffix)
    data = load("cifar10", tmp_path)
    assert isinstance(data.train, Samples) and isinstance(data.test, Samples)
    assert (len(data.train), len(data.test), data.inputs, data.classes) == (15, 3, (3, 32, 32), 10)
    pixels = np.concatenate([pixels for _, pixels in arrays.values()]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for labels, _ in arrays.values()])
    assert np.array_equal(torch.cat([data.train.x, data.test.x]).numpy(), pixels)
    assert torch.cat([data.train.labels, data.test.labels]).tolist() == labels.tolist()
    x, _ = data.train.batch(torch.arange(15))
    assert x.mean((0, 2, 3)).abs().max() < 1e-4 and (x.std((0, 2, 3)) - 1).abs().max() < 1e-3


def test_the_handmade_pickle_is_one_that_python_reads() -> None:
    labels, pixels = cifar_arrays()["data_batch_1"]
    value = pickle.loads(cifar_pickle(labels, pixels), encoding="bytes")
    assert value[b"labels"] == labels.tolist() and np.array_equal(value[b"data"], pixels)


def test_the_folder_of_the_archive_is_found(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-bin").mkdir()
    cifar_files(tmp_path / "cifar-10-batches-bin", cifar_binary, ".bin")
    assert len(load("cifar10", tmp_path).train) == 15  # type: ignore[arg-type]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("this must never run",))


LABELS, PIXELS = cifar_arrays()["data_batch_1"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({b"labels": Evil(), b"data": PIXELS}, "calls '__builtin__.print'"),
        ({b"labels": [1, 2, 3], b"data": PIXELS.astype(np.float32)}, "a state these files do not need"),
        ({b"labels": [1, 2, 3], b"data": PIXELS[:, :100].copy()}, "not of labels and data"),
        ({b"labels": [1, 2], b"data": PIXELS}, "not of labels and data"),
        ({b"labels": [1, 2, 300], b"data": PIXELS}, "not 0 to 9"),
        ({b"labels": [1, 2, -1], b"data": PIXELS}, "not 0 to 9"),
        ({b"labels": [1, 2, "3"], b"data": PIXELS}, "not 0 to 9"),
        ({b"fine_labels": [1, 2, 3], b"data": PIXELS}, "not of labels and data"),
        ([1, 2, 3], "not of labels and data"),
        ({1: 2}, "a key is a int"),
    ],
)  # fmt: skip
def test_other_pickles_are_refused(
    value: object, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cifar_files(tmp_path, cifar_pickle, "")
    (tmp_path / "data_batch_2").write_bytes(pickle.dumps(value, 2))
    with pytest.raises(DataError, match=says):
        load("cifar10", tmp_path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (b"\x80\x02cos\nsystem\nU\x04echo\x85R.", "calls 'os.system'"),
        (b"\x80\x02cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85R.", "in a way these files do not need"),
        (b"\x80\x02.", "takes a value where there is none"),
        (b"\x80\x02(].", "not of labels and data"),
        (b"\x80\x02e.", "closes what it never opened"),
        (b"\x80\x02h\x05.", "never noted"),
        (b"\x80\x02}K\x01a.", "a dict where a list belongs"),
        (b"\x80\x02}(K\x01u.", "it is damaged"),
        (b"\x80\x02T\xff\xff\xff\x7f.", "it is damaged"),
        (b"\x80\x02U\x01a", "it is damaged"),
        (b"\x80\x02K\x01Q.", "instruction BINPERSID"),
        (b"\x80\x04\x96" + b"\xff" * 7 + b"\x00abc.", "it is damaged"),
        (b"\x80\x04]]\x93.", "something without a name"),
        (b"\x80\x02I\\}1\n.", "it is damaged"),
    ],
)  # fmt: skip
def test_programs_are_not_run(program: bytes, says: str, tmp_path: Path) -> None:
    cifar_files(tmp_path, cifar_pickle, "")
    (tmp_path / "data_batch_1").write_bytes(program)
    with pytest.raises(DataError, match=says):
        load("cifar10", tmp_path)


def test_batches_of_different_length_are_refused(tmp_path: Path) -> None:
    cifar_files(tmp_path, cifar_binary, ".bin")
    path = tmp_path / "data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:-3073])
    with pytest.raises(DataError, match=r"data_batch_4 in .* holds 2 images and data_batch_1 3"):
        load("cifar10", tmp_path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    cifar_files(tmp_path, cifar_binary, ".bin")
    for nbytes in (10_001 * 3073, 1 << 40):
        with (tmp_path / "data_batch_1.bin").open("wb") as file:
            file.truncate(nbytes)
        with pytest.raises(DataError, match=f"{nbytes:,} bytes"):
            load("cifar10", tmp_path)


def test_augmented_images_are_shifted_and_mirrored_originals() -> None:
    x = torch.arange(1.0, 2 * 3 * 8 * 8 + 1).reshape(2, 3, 8, 8)
    padded = torch.nn.functional.pad(x[0], (1, 1, 1, 1))
    crops = [padded[:, down : down + 8, right : right + 8] for down in range(3) for right in range(3)]
    allowed = [*crops, *(crop.flip(2) for crop in crops)]
    seen = set()
    for _ in range(300):
        one = crop_flip(x, margin=1)[0]
        (which,) = [number for number, image in enumerate(allowed) if torch.equal(image, one)]
        seen.add(which)
    assert len(seen) == 18


def test_only_training_images_are_augmented(tmp_path: Path) -> None:
    cifar_files(tmp_path, cifar_binary, ".bin")
    plain, augmented = load("cifar10", tmp_path), load("cifar10", tmp_path, augment="crop-flip")
    assert torch.equal(plain.test[0][0], augmented.test[0][0])
    assert any(not torch.equal(plain.train[i][0], augmented.train[i][0]) for i in range(15))
