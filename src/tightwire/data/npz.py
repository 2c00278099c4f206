"""Arrays of an .npz file, of numbers and text only, with every size checked against the file before it is believed."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from tightwire.data.errors import DataError
from tightwire.data.files import brief, read_at_most, reading

MAX_NBYTES = 1 << 30
MAX_HEADER_NBYTES = 4096
_HEADER = re.compile(r"\{'descr': '([<|][iuU]\d{1,3})', 'fortran_order': False, 'shape': \(([\d, ]{0,60})\), ?\}\s*")
# What zipfile raises where a zip lies about itself:
_DAMAGED = (ValueError, RuntimeError, LookupError, ArithmeticError, AttributeError, struct.error)


def read_npz(path: Path, names: Sequence[str], where: str) -> dict[str, NDArray[Any]]:
    """Those of the named arrays that the file has; integers or text, at most one dimension."""
    with reading(path, where):
        try:
            with ZipFile(path) as archive:
                present = set(archive.namelist())
                return {name: _array(archive, name) for name in names if f"{name}.npy" in present}
        except (DataError, OSError, BadZipFile):
            raise
        except _Odd as error:
            raise DataError(f"{path}: {error}; {where}") from error
        except _DAMAGED as error:
            raise DataError(f"{path} is not an intact .npz file ({brief(error)}); {where}") from error


class _Odd(ValueError):  # noqa: N818 -- never leaves this file
    """An array that is not what it should be."""


def _array(archive: ZipFile, name: str) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or info.flag_bits & 1:
        raise _Odd(f"array {name} is encrypted or packed in a way numpy does not use")
    if info.file_size > MAX_NBYTES:
        raise _Odd(f"array {name} claims {info.file_size:,} bytes, more than {MAX_NBYTES:,}")
    with archive.open(info) as opened:
        file = cast(BinaryIO, opened)
        start = bytes(read_at_most(file, 8))
        if start[:6] != b"\x93NUMPY" or len(start) < 8 or start[6] not in (1, 2, 3):
            raise _Odd(f"array {name} is not in numpy's format")
        width, code = (2, "<H") if start[6] == 1 else (4, "<I")
        (header_nbytes,) = struct.unpack(code, file.read(width))
        header = file.read(min(header_nbytes, MAX_HEADER_NBYTES)).decode("latin-1")
        found = _HEADER.fullmatch(header)
        if found is None or len(header) != header_nbytes:
            raise _Odd(f"array {name} is neither of integers nor of text")
        dtype = np.dtype(found[1])
        shape = tuple(int(side) for side in found[2].replace(",", " ").split())
        nbytes = dtype.itemsize * prod(shape)
        if len(shape) > 1 or 8 + width + header_nbytes + nbytes != info.file_size:
            raise _Odd(f"array {name} of shape {shape} does not fit its {info.file_size:,} bytes")
        body = read_at_most(file, nbytes + 1)
    if len(body) != nbytes:
        raise _Odd(f"array {name} ends after {len(body):,} of {nbytes:,} bytes")
    return np.ndarray(shape, dtype, body)
