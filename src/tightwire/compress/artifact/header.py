"""The header of a `.twz` file: JSON, deflated, and believed in nothing.

{"model": {"name", "inputs", "classes", "options"} or null, "facts": {…}, "tensors": [row, …]}
row of a plain tensor:   [name, shape, form, planes]
row of a shared tensor:  [name, shape, form, planes of the codebook, centroids, coder, bytes of the codes]
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from tightwire.compress.artifact.layout import (
    FREE_NBYTES,
    MOST_DIMENSIONS,
    MOST_NAME,
    MOST_RATIO,
    MOST_SIDE,
    MOST_TEXT_NBYTES,
    MOST_TEXT_RATIO,
    Numbers,
    Section,
)
from tightwire.compress.artifact.numbers import FORMS, LINEAR
from tightwire.compress.artifact.values import Architecture
from tightwire.compress.code import CODERS
from tightwire.compress.errors import ArtifactError
from tightwire.compress.shared_weights import MOST_CENTROIDS


def write_header(architecture: Architecture | None, facts: Mapping[str, Any], sections: Iterable[Section]) -> bytes:
    """The deflated header."""
    model = None
    if architecture is not None:
        model = {"name": architecture.name, "inputs": list(architecture.inputs), "classes": architecture.classes}
        if architecture.options:
            model["options"] = dict(architecture.options)
    content = {"model": model, **({"facts": dict(facts)} if facts else {}), "tensors": [_row(s) for s in sections]}
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    packed = packer.compress(text) + packer.flush()
    if len(text) > MOST_TEXT_NBYTES:
        raise ArtifactError(f"the header would be {len(text)} bytes of JSON; keep fewer facts")
    if len(text) > MOST_TEXT_RATIO * len(packed):  # readers refuse what swells more: store it as it is
        packer = zlib.compressobj(0, zlib.DEFLATED, -15)
        packed = packer.compress(text) + packer.flush()
    return packed


def _row(s: Section) -> list[Any]:
    row: list[Any] = [s.name, list(s.shape), s.numbers.form, [list(plane) for plane in s.numbers.planes]]
    return row if s.coder is None else [*row, s.centroids, s.coder, s.codes_nbytes]


def read_header(packed: bytes) -> tuple[Architecture | None, dict[str, Any], list[Section]]:
    """What `write_header` wrote; everything is checked before it is used."""
    most = min(MOST_TEXT_NBYTES, MOST_TEXT_RATIO * len(packed))
    unpacker = zlib.decompressobj(-15)
    try:
        text = unpacker.decompress(packed, most)
        if not unpacker.eof or unpacker.unused_data:
            raise ArtifactError(f"the header does not inflate to at most {most} bytes: the file is damaged")
        content = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(f"the header cannot be read ({error}): the file is damaged") from error
    if not isinstance(content, dict) or not isinstance(content.get("tensors"), list):
        raise ArtifactError("the header lists no tensors: the file is damaged")
    facts = content.get("facts", {})
    if not isinstance(facts, dict):
        raise ArtifactError(f"the facts in the header are {type(facts).__name__}, not an object")
    sections = [_section(row) for row in content["tensors"]]
    if len({s.name for s in sections}) != len(sections):
        raise ArtifactError("the header names a tensor twice")
    return _architecture(content.get("model")), facts, sections


def check_size(sections: list[Section], *, file_nbytes: int, most_nbytes: int) -> None:
    """Refuse tensors that are too large for the file, or for whoever reads it."""
    total = sum(s.dense_nbytes for s in sections)
    most = max(FREE_NBYTES, MOST_RATIO * file_nbytes)
    if total > most:
        raise ArtifactError(f"{file_nbytes} bytes announce {total} bytes of tensors, more than {most}: refused")
    if total > most_nbytes:
        raise ArtifactError(f"the tensors take {total} bytes, more than {most_nbytes}: raise most_nbytes to read them")


def _section(row: Any) -> Section:
    if not isinstance(row, list) or len(row) not in (4, 7):
        raise ArtifactError("a tensor in the header is not a row of 4 or 7 entries")
    name, sides, form, planes = row[:4]
    if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME:
        raise ArtifactError(f"a tensor's name must be text of 1 to {MOST_NAME} letters")
    shape = _whole(sides, MOST_SIDE, f"the shape of {name!r}")
    if len(shape) > MOST_DIMENSIONS:
        raise ArtifactError(f"{name!r} has {len(shape)} dimensions; at most {MOST_DIMENSIONS} are read")
    if len(row) == 4:
        return Section(name, shape, _numbers(name, form, planes, prod(shape)))
    centroids, coder, nbytes = row[4:]
    (centroids,), (nbytes,) = _whole([centroids], MOST_CENTROIDS, name), _whole([nbytes], MOST_SIDE, name)
    if not isinstance(coder, str) or coder not in CODERS:
        raise ArtifactError(f"{name!r} is coded by {coder!r}, which this version does not know: {', '.join(CODERS)}")
    if form == "linear":
        return Section(name, shape, Numbers(form, (), LINEAR.size), centroids, coder, nbytes)
    return Section(name, shape, _numbers(name, form, planes, centroids), centroids, coder, nbytes)


def _numbers(name: str, form: Any, planes: Any, numel: int) -> Numbers:
    if not isinstance(form, str) or form not in FORMS or not isinstance(planes, list):
        raise ArtifactError(f"{name!r} has numbers of form {form!r}; there are {', '.join(FORMS)}")
    itemsize = FORMS[form].itemsize
    if not planes:
        return Numbers(form, (), numel * itemsize)
    pairs = [(plane[0], plane[1]) for plane in planes if isinstance(plane, list) and len(plane) == 2]
    if len(pairs) != itemsize or len(planes) != itemsize or any(coder not in list(CODERS) for coder, _ in pairs):
        raise ArtifactError(f"{name!r} needs {itemsize} planes, each with a coder and its bytes")
    sizes = _whole([nbytes for _, nbytes in pairs], MOST_SIDE, f"the planes of {name!r}")
    return Numbers(form, tuple((str(coder), size) for (coder, _), size in zip(pairs, sizes, strict=True)), sum(sizes))


def _whole(numbers: Any, most: int, what: str) -> tuple[int, ...]:
    if not isinstance(numbers, list) or any(type(n) is not int or not 0 <= n <= most for n in numbers):
        raise ArtifactError(f"{what} must be whole numbers from 0 to {most}")
    return tuple(numbers)


def _architecture(model: Any) -> Architecture | None:
    if model is None:
        return None
    options = model.get("options", {}) if isinstance(model, dict) else None
    if not isinstance(options, dict) or not isinstance(model.get("name"), str):
        raise ArtifactError("the network in the header is not an object with a name")
    inputs, (classes,) = (
        _whole(model.get("inputs"), MOST_SIDE, "inputs"),
        _whole([model.get("classes")], MOST_SIDE, "classes"),
    )
    frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return Architecture(model["name"], inputs, classes, frozen)
