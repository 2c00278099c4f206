"""Finding files, and reading them without trusting what they say about their own size."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tightwire.data.errors import DataError

CHUNK_NBYTES = 1 << 20


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Inside, what a damaged or unreadable file raises becomes one sentence."""
    try:
        yield
    except DataError:
        raise
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read ({brief(error)}); {remedy}") from error


def brief(error: Exception) -> str:
    """What an error says, fit for one sentence: it may quote a damaged file."""
    return " ".join(str(error).split())[:120]


def find(folders: Sequence[Path], names: Sequence[str]) -> Path | None:
    """The first file of one of these names, folder by folder."""
    return next((path for folder in folders for name in names if (path := folder / name).is_file()), None)


def only(folder: Path, pattern: str, remedy: str) -> Path:
    """The one file of a folder that matches."""
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    if len(found) != 1:
        listed = ", ".join(path.name for path in found) or "none"
        raise DataError(f"{folder} must hold exactly one {pattern} and holds {listed}; {remedy}")
    return found[0]


def read_at_most(file: BinaryIO, nbytes: int) -> bytearray:
    """Up to ``nbytes``; memory grows with what is really there, not with what a header claims."""
    body = bytearray()
    while len(body) < nbytes and (piece := file.read(min(CHUNK_NBYTES, nbytes - len(body)))):
        body += piece
    return body
