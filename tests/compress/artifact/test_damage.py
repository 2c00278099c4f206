"""Damaged and hostile files: one sentence, at once, in little memory."""

from __future__ import annotations

import time
import tracemalloc
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.compress.artifact.making import all_kinds, small
from tests.compress.artifact.sealing import apart, mutate, pack, seal
from tightwire.compress.artifact import Artifact, read, write
from tightwire.compress.artifact.header import read_header
from tightwire.compress.artifact.layout import LENGTH, PRELUDE_NBYTES, digest
from tightwire.compress.errors import ArtifactError

GOLDEN = Path(__file__).parents[2] / "golden"
SLACK_NBYTES = 4 << 20  # tables of the coders, the header's objects: the same for every file


@cache
def seeds() -> tuple[bytes, ...]:
    """Good files. Made when a test runs, not when it is collected: the coders are compiled then."""
    return write(small()), write(all_kinds()), *(path.read_bytes() for path in sorted(GOLDEN.glob("*.twz")))


def test_every_single_byte_is_guarded() -> None:
    whole = bytearray(seeds()[0])
    for at in range(len(whole)):
        whole[at] ^= 0x10
        with pytest.raises(ArtifactError):
            read(bytes(whole))
        whole[at] ^= 0x10
    for end in range(len(whole)):
        with pytest.raises(ArtifactError):
            read(bytes(whole[:end]))


def test_the_sentence_says_what_is_wrong() -> None:
    whole = seeds()[0]
    with pytest.raises(ArtifactError, match=r"not a \.twz file"):
        read(b"PK" + whole[2:])
    with pytest.raises(ArtifactError, match=r"version 9 of the format, tightwire reads 1: update"):
        read(whole[:3] + b"\x09" + whole[4:])
    with pytest.raises(ArtifactError, match="damaged or cut off; fetch it again"):
        read(whole[:-1] + bytes([whole[-1] ^ 1]))
    content, bodies = apart(whole)
    with pytest.raises(ArtifactError, match="the tensors in the header do not fill the file"):
        read(seal(pack(content), bodies[:-1]))
    wrong = bytearray(whole[:-8])
    wrong[wrong.index(bodies[2])] ^= 1
    with pytest.raises(ArtifactError, match=r"the checksum of 3\.weight is wrong"):
        read(bytes(wrong) + digest(bytes(wrong)))


def announcing(**changes: object) -> bytes:
    """A file whose first row says something else."""
    content, bodies = apart(seeds()[0])
    for key, value in changes.items():
        content["tensors"][0][{"name": 0, "shape": 1, "form": 2, "centroids": 4, "coder": 5, "nbytes": 6}[key]] = value
    return seal(pack(content), bodies)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shape": [1 << 30, 1 << 30]}, "more than 67108864: refused"),
        ({"shape": [-1, 5]}, "must be whole numbers"),
        ({"shape": [1] * 9}, "9 dimensions"),
        ({"shape": [12, 17]}, "1.weight' cannot be decoded"),
        ({"shape": [1 << 12, 1 << 11]}, "cannot be decoded"),
        ({"centroids": 1 << 20}, "must be whole numbers"),
        ({"centroids": 2.0}, "must be whole numbers"),
        ({"coder": "zip"}, "does not know"),
        ({"form": "f8"}, "of form 'f8'"),
        ({"nbytes": 1 << 39}, "do not fill the file"),
        ({"name": "1.bias"}, "names a tensor twice"),
        ({"name": ""}, "name must be text"),
    ],
)
def test_a_header_that_lies(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ArtifactError, match=sentence):
        read(announcing(**changes))


def test_a_reader_may_allow_less() -> None:
    with pytest.raises(ArtifactError, match="raise most_nbytes"):
        read(seeds()[0], most_nbytes=100)


def test_headers_that_swell_are_not_inflated() -> None:
    with pytest.raises(ArtifactError, match="does not inflate to at most"):
        read(seal(pack({"facts": {"x": "0" * (1 << 24)}, "tensors": []}), []))
    for text in (b"[" * 100_000, b"{", b"\xff", b'{"tensors":' + b"9" * 10_000 + b"}"):
        packer = zlib.compressobj(0, zlib.DEFLATED, -15)
        with pytest.raises(ArtifactError, match="the header cannot be read"):
            read(seal(packer.compress(text) + packer.flush(), []))
    with pytest.raises(ArtifactError, match="lists no tensors"):
        read(seal(pack(["tensors"]), []))
    facts = {"x": "0" * 100_000}
    assert read(write(Artifact({}, None, facts))).facts == facts  # an honest one is stored as it is


def trial(whole: bytes) -> bool:
    """Read a hostile file under watch; whether it was a good one after all."""
    tracemalloc.reset_peak()
    before, began, waited = tracemalloc.get_traced_memory()[0], time.process_time(), time.perf_counter()
    try:
        read(whole)
        good = True
    except ArtifactError:
        good = False
    seconds, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1] - before
    assert seconds < 1 and time.perf_counter() - waited < 20  # of its own time; others may have the processor meanwhile
    assert peak <= 2 * (declared_nbytes(whole) + len(whole)) + SLACK_NBYTES
    return good


def declared_nbytes(whole: bytes) -> int:
    """What the header announces, if it can be read."""
    try:
        nbytes = LENGTH.unpack(whole[4:PRELUDE_NBYTES])[0]
        return sum(s.dense_nbytes for s in read_header(whole[PRELUDE_NBYTES : PRELUDE_NBYTES + nbytes])[2])
    except Exception:
        return 0


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_mutated_files(part: int, request: pytest.FixtureRequest) -> None:
    """No crash, no hang over a second, no more than twice the memory that is announced. 100,000 in all with --slow."""
    for whole in seeds():
        read(whole)  # compiled now, not under the clock
    rng = np.random.default_rng(part)
    good = 0
    tracemalloc.start()
    try:
        for number in range(10_000 if request.config.getoption("--slow") else 30):
            good += trial(mutate(seeds()[number % len(seeds())], rng))
    finally:
        tracemalloc.stop()
    assert good > 0  # damage that checksums do not see reaches the coders, and some of it is harmless
