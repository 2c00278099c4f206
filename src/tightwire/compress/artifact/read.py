"""`read`: a network from a `.twz` file. Bounds are checked before memory is taken, parts before they are believed.

1 size, magic, version  →  2 checksum of the whole  →  3 header: checksum, size, every row
→  4 sections fill the file exactly; tensors are not too large for it  →  5 section by section: checksum, decode
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightwire.algebra.errors import PayloadError
from tightwire.compress.artifact.header import check_size, read_header
from tightwire.compress.artifact.layout import (
    CRC_NBYTES,
    DIGEST_NBYTES,
    LENGTH,
    MAGIC,
    MOST_NBYTES,
    PRELUDE_NBYTES,
    VERSION,
    Section,
    crc,
    digest,
)
from tightwire.compress.artifact.numbers import Stored, unpack, unpack_codebook
from tightwire.compress.artifact.values import Architecture, Artifact, Tensor
from tightwire.compress.code import Coded, decode
from tightwire.compress.errors import ArtifactError, CompressError
from tightwire.compress.shared_weights import SharedWeights


@dataclass(frozen=True)
class Opened:
    """A file whose checksums and header are in order. ``parts``: the bytes of each section."""

    architecture: Architecture | None
    facts: dict[str, Any]
    sections: list[Section]
    parts: list[bytes]
    header_nbytes: int
    nbytes: int


def read(source: Path | str | bytes, *, most_nbytes: int = MOST_NBYTES) -> Artifact:
    """The network in a file, or in a file's bytes. ``most_nbytes`` bounds the tensors, uncompressed."""
    opened = unseal(source, most_nbytes=most_nbytes)
    tensors = {s.name: _tensor(s, part) for s, part in zip(opened.sections, opened.parts, strict=True)}
    return Artifact(tensors, opened.architecture, opened.facts)


def unseal(source: Path | str | bytes, *, most_nbytes: int = MOST_NBYTES) -> Opened:
    """Steps 1 to 4, and the checksums of 5."""
    whole = source if isinstance(source, bytes) else _load(Path(source), most_nbytes)
    body = memoryview(whole)[: len(whole) - DIGEST_NBYTES]
    if len(body) < PRELUDE_NBYTES + CRC_NBYTES or whole[: len(MAGIC)] != MAGIC:
        raise ArtifactError("this is not a .twz file: it does not begin like one")
    if whole[len(MAGIC)] != VERSION:
        raise ArtifactError(
            f"this file has version {whole[len(MAGIC)]} of the format, tightwire reads {VERSION}: update tightwire"
        )
    if digest(body) != whole[len(body) :]:
        raise ArtifactError("the checksum of the file is wrong: it is damaged or cut off; fetch it again")
    (header_nbytes,) = LENGTH.unpack(body[len(MAGIC) + 1 : PRELUDE_NBYTES])
    header, at = _part(body, PRELUDE_NBYTES, header_nbytes, "the header")
    architecture, facts, sections = read_header(header)
    if at + sum(s.nbytes + CRC_NBYTES for s in sections) != len(body):
        raise ArtifactError("the tensors in the header do not fill the file: it is damaged")
    check_size(sections, file_nbytes=len(whole), most_nbytes=most_nbytes)
    parts = []
    for section in sections:
        part, at = _part(body, at, section.nbytes, section.name)
        parts.append(part)
    return Opened(architecture, facts, sections, parts, header_nbytes, len(whole))


def _load(path: Path, most_nbytes: int) -> bytes:
    try:
        if path.stat().st_size > most_nbytes:
            raise ArtifactError(f"{path} is larger than {most_nbytes} bytes: raise most_nbytes to read it")
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({error.strerror})") from error


def _part(body: memoryview, at: int, nbytes: int, what: str) -> tuple[bytes, int]:
    """The bytes of a part and where the next begins."""
    end = at + nbytes
    if end + CRC_NBYTES > len(body):
        raise ArtifactError(f"{what} is cut off: {nbytes} bytes are announced where {len(body) - at} are left")
    part = bytes(body[at:end])
    if crc(part) != body[end : end + CRC_NBYTES]:
        raise ArtifactError(f"the checksum of {what} is wrong: the file is damaged")
    return part, end + CRC_NBYTES


def _tensor(s: Section, part: bytes) -> Tensor:
    numbers = Stored(s.numbers.form, s.numbers.planes, part[: s.numbers.nbytes])
    try:
        if s.coder is None:
            plain: Tensor = unpack(numbers, shape=s.shape)
            return plain
        codebook_K = unpack_codebook(numbers, centroids=s.centroids)
        coded = Coded(s.coder, part[s.numbers.nbytes :])
        return SharedWeights(s.shape, decode(coded, shape=s.shape, centroids=s.centroids), codebook_K)
    except (PayloadError, CompressError) as error:
        raise ArtifactError(f"tensor {s.name!r} cannot be decoded: {error}") from error
