"""`write`: a network as the bytes of a `.twz` file; `save`: into a file, whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tightwire.compress.artifact.header import check_size, write_header
from tightwire.compress.artifact.layout import LENGTH, MAGIC, MOST_NBYTES, VERSION, Numbers, Section, crc, digest
from tightwire.compress.artifact.numbers import Stored, pack, pack_codebook
from tightwire.compress.artifact.read import read
from tightwire.compress.artifact.values import Artifact, Tensor
from tightwire.compress.code import Coder, encode
from tightwire.compress.errors import ArtifactError
from tightwire.compress.shared_weights import SharedWeights
from tightwire.files import writing


def write(artifact: Artifact, *, coders: Sequence[Coder] = ()) -> bytes:
    """The bytes of a `.twz` file, read back and compared before they are returned.

    ``coders`` are those to choose from for shared tensors; all, unless told.
    """
    sections, bodies = [], []
    for name, tensor in artifact.tensors.items():
        section, body = _section(name, tensor, coders)
        sections.append(section)
        bodies.append(body)
    header = write_header(artifact.architecture, artifact.facts, sections)
    made = b"".join(
        [MAGIC, bytes([VERSION]), LENGTH.pack(len(header)), header, crc(header), *(b + crc(b) for b in bodies)]
    )
    made += digest(made)
    check_size(sections, file_nbytes=len(made), most_nbytes=max(MOST_NBYTES, artifact.dense_nbytes))
    if not read(made, most_nbytes=max(MOST_NBYTES, artifact.dense_nbytes)).same(artifact):
        raise ArtifactError(
            "what was written does not read back the same; facts and options must be what JSON has: text keys, "
            "finite numbers, no tuples among facts"
        )
    return made


def save(artifact: Artifact, path: Path | str, *, coders: Sequence[Coder] = ()) -> int:
    """Write a file; its bytes. An old file of that name stays as it is until the new one is complete."""
    made = write(artifact, coders=coders)
    path = Path(path)
    try:
        with writing(path) as partial:
            partial.write_bytes(made)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written ({error.strerror})") from error
    return len(made)


def _section(name: str, tensor: Tensor, coders: Sequence[Coder]) -> tuple[Section, bytes]:
    if not isinstance(tensor, SharedWeights):
        plain = pack(tensor)
        return Section(name, tensor.shape, _numbers(plain)), plain.payload
    book = pack_codebook(tensor.codebook_K)
    centroids = len(tensor.codebook_K)
    coded = encode(tensor.code_N, shape=tensor.shape, centroids=centroids, coders=coders)
    section = Section(name, tensor.shape, _numbers(book), centroids, coded.coder, len(coded.payload))
    return section, book.payload + coded.payload


def _numbers(stored: Stored) -> Numbers:
    return Numbers(stored.form, stored.planes, len(stored.payload))
