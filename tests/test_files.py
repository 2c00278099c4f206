"""A file is there whole, or as it was before."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from tightwire.files import write_json, write_text, writing


def test_a_reader_never_sees_half_of_a_file(tmp_path: Path) -> None:
    path, done, seen = tmp_path / "plan.json", threading.Event(), []
    write_json(path, [0] * 20_000)

    def read() -> None:
        while not done.is_set():
            seen.append(len(json.loads(path.read_text(encoding="utf-8"))))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(100):
        write_json(path, [n] * (20_000 if n % 2 else 10))
    done.set()
    reader.join()
    assert seen and set(seen) <= {10, 20_000}
    assert os.listdir(tmp_path) == ["plan.json"]


def test_what_fails_on_the_way_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    write_text(path, "before")

    def fail() -> None:
        with writing(path) as partial:
            partial.write_text("half")
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        fail()
    assert path.read_text() == "before" and os.listdir(path.parent) == ["file"]


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    write_text(link, "first")  # nothing is there yet
    write_text(link, "second")
    assert link.is_symlink() and target.read_text() == "second"


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "said")
    reader.join()
    assert heard == ["said"] and stat.S_ISFIFO(pipe.stat().st_mode)
