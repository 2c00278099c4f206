"""Whatever happened to a file, its reader answers with data or with one sentence that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.data import making
from tightwire.data import DataError, load
from tightwire.data.rows import Rows

MAKERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "idx": ("mnist", making.idx_files),
    "idx.gz": ("fashion-mnist", lambda folder: making.idx_files(folder, packed=True)),
    "cifar binary": ("cifar10", lambda folder: making.cifar_files(folder, making.cifar_binary, ".bin", records=1)),
    "cifar pickle": ("cifar10", lambda folder: making.cifar_files(folder, making.cifar_pickle, "", records=1)),
    "text": ("text", making.text_files),
    "npz": ("speech", making.clips_file),
}
OPTIONS = {"text": {"columns": 2, "bptt": 5}}


@pytest.mark.parametrize("kind", MAKERS)
@given(st.data())
def test_a_damaged_file_gives_data_or_one_sentence(kind: str, data: st.DataObject) -> None:
    name, make = MAKERS[kind]
    damaged = data.draw(making.damages())
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make(folder)
        victim = data.draw(st.sampled_from(sorted(folder.iterdir())))
        victim.write_bytes(damaged(victim.read_bytes()))
        try:
            loaded = load(name, folder, **OPTIONS.get(name, {}))
        except DataError as error:
            message = str(error)
            assert "\n" not in message and len(message) < 600
            assert str(folder) in message or victim.name in message
            return
        for part in (loaded.train, loaded.test):
            assert isinstance(part, Rows)
            x, y = part.batch(torch.arange(len(part)))
            assert x.isfinite().all() if x.is_floating_point() else (x.min() >= 0 and x.max() < loaded.classes)
            assert y.min() >= 0 and y.max() < loaded.classes


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "text"])
@given(where=st.floats(0, 1, exclude_max=True))
def test_a_file_that_was_cut_is_never_believed(kind: str, where: float) -> None:
    name, make = MAKERS[kind]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make(folder)
        victim = sorted(folder.iterdir())[0]
        body = victim.read_bytes()
        victim.write_bytes(body[: int(where * len(body))])
        with pytest.raises(DataError, match=r"; \w+"):
            load(name, folder)


@pytest.mark.parametrize("kind", MAKERS)
def test_missing_files_and_folders_are_named_with_the_remedy(kind: str, tmp_path: Path) -> None:
    name, _ = MAKERS[kind]
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError) as caught:
            load(name, folder)
        assert str(folder) in str(caught.value)
        assert "; get " in str(caught.value) or "; give " in str(caught.value) or "; install " in str(caught.value)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_folder_in_the_place_of_a_file_is_refused(kind: str, tmp_path: Path) -> None:
    name, make = MAKERS[kind]
    make(tmp_path)
    victim = sorted(tmp_path.iterdir())[0]
    victim.unlink()
    victim.mkdir()
    with pytest.raises(DataError):
        load(name, tmp_path)
