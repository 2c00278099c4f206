"""The bytes of a `.twz` file, in order. `docs/twz.md` says the same for other readers.

1  "TWZ" and the version, 4 bytes
2  bytes of the header, 4, little-endian; the header: deflated JSON; its CRC-32
3  for each tensor of the header, in its order: its section and that one's CRC-32
4  BLAKE2b of all before, 8 bytes
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from math import prod

MAGIC, VERSION = b"TWZ", 1
LENGTH = struct.Struct("<I")
CRC_NBYTES, DIGEST_NBYTES = 4, 8
PRELUDE_NBYTES = len(MAGIC) + 1 + LENGTH.size
MOST_TEXT_RATIO, MOST_TEXT_NBYTES = 64, 1 << 24  # of a header, inflated
MOST_SIDE, MOST_DIMENSIONS, MOST_NAME = 1 << 40, 8, 512
FREE_NBYTES, MOST_RATIO = 1 << 26, 8192  # dense bytes that any file may stand for, and those for each of its bytes
MOST_NBYTES = 1 << 34  # dense bytes that are read unless one asks for more


@dataclass(frozen=True)
class Numbers:
    """Where plain numbers lie: their form, and the coder and bytes of each plane."""

    form: str
    planes: tuple[tuple[str, int], ...]
    nbytes: int


@dataclass(frozen=True)
class Section:
    """One tensor of the header. A plain one has no ``coder``; its numbers are all there is."""

    name: str
    shape: tuple[int, ...]
    numbers: Numbers  # the codebook, or the tensor itself
    centroids: int = 0
    coder: str | None = None
    codes_nbytes: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the section, without its checksum."""
        return self.numbers.nbytes + self.codes_nbytes

    @property
    def numel(self) -> int:
        """Positions."""
        return prod(self.shape)

    @property
    def dense_nbytes(self) -> int:
        """Bytes of the tensor, uncompressed."""
        return self.numel * (8 if self.coder is None and self.numbers.form[0] == "i" else 4)


def crc(part: bytes) -> bytes:
    """The checksum of a part."""
    return LENGTH.pack(zlib.crc32(part))


def digest(everything: bytes | memoryview) -> bytes:
    """The checksum of the whole."""
    return blake2b(everything, digest_size=DIGEST_NBYTES).digest()
