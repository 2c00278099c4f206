"""A file is there whole, or as it was before: it is written beside its place and moved into it when it is complete.

A reader who comes in between, a process that is killed and a disk that is full never leave half of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Where to write it; what is there is moved to ``path`` when the block ends well. Makes the folder.

    Two processes do not write into each other's. Through a link the file is written that it leads to; what is no file
    (a pipe, /dev/null) is written as it stands.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file of text."""
    with writing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any, *, indent: int | None = None) -> None:
    """Write a value as JSON, a line end behind it."""
    write_text(path, json.dumps(value, indent=indent) + "\n")
