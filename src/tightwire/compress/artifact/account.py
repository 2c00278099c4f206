"""Where every byte of a `.twz` file goes. The parts add up to the file, to the byte."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tightwire.compress.artifact.layout import (
    CRC_NBYTES,
    DIGEST_NBYTES,
    MOST_NBYTES,
    PRELUDE_NBYTES,
    Section,
)
from tightwire.compress.artifact.read import read, unseal
from tightwire.compress.artifact.values import Architecture
from tightwire.compress.code import Coded
from tightwire.compress.code.choose import positions_nbytes
from tightwire.compress.shared_weights import SharedWeights


@dataclass(frozen=True)
class Row:
    """One tensor. A coder that models positions and codes together splits its bytes by what it charged for each."""

    name: str
    shape: tuple[int, ...]
    dense_nbytes: int
    density: float
    bits: int  # of a code, or of a plain number as stored
    coder: str
    positions_nbytes: int
    codes_nbytes: int
    codebook_nbytes: int
    plain_nbytes: int

    @property
    def nbytes(self) -> int:
        """All of it, its checksum included."""
        parts = self.positions_nbytes + self.codes_nbytes + self.codebook_nbytes + self.plain_nbytes
        return parts + CRC_NBYTES


@dataclass(frozen=True)
class Account:
    """A file's bytes, by tensor and kind."""

    rows: tuple[Row, ...]
    header_nbytes: int  # with its length and checksum, magic and version
    digest_nbytes: int
    nbytes: int
    architecture: Architecture | None
    facts: dict[str, object]

    @property
    def dense_nbytes(self) -> int:
        """Bytes of the tensors, uncompressed."""
        return sum(row.dense_nbytes for row in self.rows)

    @property
    def ratio(self) -> float:
        """Uncompressed tensors ÷ the file, everything included."""
        return self.dense_nbytes / self.nbytes


def account(source: Path | str | bytes, *, most_nbytes: int = MOST_NBYTES) -> Account:
    """Read a file and say where its bytes go."""
    opened = unseal(source, most_nbytes=most_nbytes)
    tensors = read(source, most_nbytes=most_nbytes).tensors
    rows = []
    for s, part in zip(opened.sections, opened.parts, strict=True):
        tensor = tensors[s.name]
        rows.append(_shared(s, part, tensor) if isinstance(tensor, SharedWeights) else _plain(s))
    header = PRELUDE_NBYTES + opened.header_nbytes + CRC_NBYTES
    return Account(tuple(rows), header, DIGEST_NBYTES, opened.nbytes, opened.architecture, opened.facts)


def _shared(s: Section, part: bytes, tensor: SharedWeights) -> Row:
    assert s.coder is not None
    coded = Coded(s.coder, part[s.numbers.nbytes :])
    positions = positions_nbytes(coded, shape=s.shape, centroids=s.centroids) or 0
    bits = max(0, s.centroids - 1).bit_length()
    return Row(s.name, s.shape, s.dense_nbytes, tensor.density, bits, s.coder, positions, s.codes_nbytes - positions,
               s.numbers.nbytes, 0)  # fmt: skip


def _plain(s: Section) -> Row:
    coders = {coder for coder, _ in s.numbers.planes} or {"as is"}
    bits = 8 * int(s.numbers.form[1:])
    return Row(s.name, s.shape, s.dense_nbytes, 1.0, bits, "+".join(sorted(coders)), 0, 0, 0, s.numbers.nbytes)
