"""Text: streams go on from segment to segment, and the training part alone decides the vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from tests.data.making import text_files
from tightwire.data import Data, DataError, collate, load
from tightwire.data.text import Segments


def words_of(data: Data, part: object) -> list[str]:
    assert isinstance(part, Segments)
    return [data.names[number] for number in part.streams_CL.flatten().tolist()]


@given(st.integers(2, 400), st.integers(1, 7), st.integers(1, 9))
def test_batches_in_order_are_consecutive_segments_of_the_same_streams(words: int, columns: int, bptt: int) -> None:
    segments = Segments(torch.arange(words), columns=columns, bptt=bptt)
    length = words // columns
    assert len(segments) == max(0, length - 1) // bptt * columns
    loader = DataLoader(segments, batch_size=columns, collate_fn=collate)
    whole = [x for x, _ in loader]
    for x, y in loader:
        assert x.shape == y.shape == (columns, bptt)
        assert torch.equal(y, x + 1)
    if whole:
        together = torch.cat(whole, dim=1)
        starts = torch.arange(columns)[:, None] * length
        assert torch.equal(together, starts + torch.arange(together.shape[1]))
        assert length - 1 - together.shape[1] < bptt, "less than a segment may be left over"


def test_a_line_ends_with_eos_and_unknown_words_become_unk(tmp_path: Path) -> None:
    (tmp_path / "a.train.txt").write_text(" the cat sat \n\n the <unk> \n")
    (tmp_path / "a.valid.txt").write_text("the dog sat\n")
    (tmp_path / "a.test.txt").write_text("cat\nbird")
    data = load("text", tmp_path, columns=1, bptt=1)
    assert words_of(data, data.train) == ["the", "cat", "sat", "<eos>", "<eos>", "the", "<unk>", "<eos>"]
    assert words_of(data, data.valid) == ["the", "<unk>", "sat", "<eos>"]
    assert words_of(data, data.test) == ["cat", "<eos>", "<unk>", "<eos>"]
    assert set(data.names) == {"<eos>", "<unk>", "the", "cat", "sat"} and data.classes == 5
    assert (data.task, data.inputs, data.columns) == ("language", (1,), 1)


def test_rare_words_become_unk(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.txt").write_text("a a b\n" * 1 + "a c\n")
    data = load("text", tmp_path, columns=1, bptt=2, at_least=2)
    assert set(data.names) == {"<eos>", "<unk>", "a"}
    assert words_of(data, data.train) == ["a", "a", "<unk>", "<eos>", "a", "<unk>", "<eos>"]


@pytest.mark.parametrize("direct", [True, False])
def test_one_file_is_cut_90_5_5(direct: bool, tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("\n".join(f"w{number % 50}" for number in range(500)) + "\nlast\n")
    data = load("text", path if direct else tmp_path, columns=1, bptt=3)
    parts = [words_of(data, part) for part in (data.train, data.valid, data.test)]
    assert [len(part) for part in parts] == [902, 50, 50]
    assert "last" not in data.names and parts[2][-2:] == ["<unk>", "<eos>"]


def test_files_are_told_apart_by_name(tmp_path: Path) -> None:
    text_files(tmp_path)
    data = load("text", tmp_path, columns=2, bptt=5)
    assert data.classes == 32
    (tmp_path / "other.train.txt").write_text("x\n")
    with pytest.raises(DataError, match=r"exactly one \*train\*.txt and holds other.train.txt, small.train.txt"):
        load("text", tmp_path)


def test_a_training_text_alone_is_not_taken_for_a_whole(tmp_path: Path) -> None:
    text_files(tmp_path)
    for part in ("valid", "test"):
        (tmp_path / f"small.{part}.txt").unlink()
    with pytest.raises(DataError, match=r"exactly one \*valid\*.txt and holds none"):
        load("text", tmp_path)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"a b \xff\n" * 40, "is not UTF-8"),
        (b"a b \0\n" * 40, "zero bytes"),
        (b"", "has 0 words, fewer than 20 streams of 36"),
        (b"a b c\n", "ask for fewer columns"),
    ],
)
def test_what_is_no_text_is_refused(body: bytes, says: str, tmp_path: Path) -> None:
    text_files(tmp_path)
    (tmp_path / "small.train.txt").write_bytes(body)
    with pytest.raises(DataError, match=says):
        load("text", tmp_path)


@pytest.mark.parametrize("options", [{"columns": 0}, {"bptt": 0}, {"columns": "20"}, {"at_least": 0}, {"bptt": True}])
def test_impossible_options_are_refused(options: dict[str, object], tmp_path: Path) -> None:
    text_files(tmp_path)
    with pytest.raises(DataError, match="whole number of at least 1"):
        load("text", tmp_path, **options)


def test_a_text_too_large_for_memory_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="more than 1,073,741,824 bytes"):
        load("text", tmp_path)
