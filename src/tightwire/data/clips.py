"""Recordings in one .npz file: `audio` (int16, end to end), `offsets` (where each clip begins, and the end), `labels`
(0 to 9), `speakers` (text), `index` (number of the recording), and perhaps `sample_rate` (else 8000).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightwire.data.cepstra import window_samples
from tightwire.data.errors import DataError
from tightwire.data.npz import read_npz

DIGITS = 10
TEST_BELOW = 5
_PARTS = ("audio", "offsets", "labels", "speakers", "index")


@dataclass(frozen=True)
class Clips:
    """The recordings of a file; all but ``audio`` are by clip, ``offsets`` has one more."""

    audio: NDArray[np.int16]
    offsets: NDArray[np.int64]
    labels: NDArray[np.int64]
    speakers: NDArray[np.str_]
    index: NDArray[np.int64]
    rate_hz: int


def read_clips(path: Path, where: str) -> Clips:
    """The recordings of a file; refuses one whose parts do not fit together."""
    found = read_npz(path, (*_PARTS, "sample_rate"), where)
    for wrong in _wrong(found):
        raise DataError(f"{path}: {wrong}; {where}")
    offsets, labels, index = (found[name].astype(np.int64) for name in ("offsets", "labels", "index"))
    return Clips(found["audio"], offsets, labels, found["speakers"], index, _rate(found))


def _rate(found: dict[str, NDArray[Any]]) -> int:
    return int(found["sample_rate"].max(initial=0)) if "sample_rate" in found else 8000


def _wrong(found: dict[str, NDArray[Any]]) -> Iterator[str]:
    """What is wrong with a file, most basic first; a later question relies on the earlier ones."""
    for name in _PARTS:
        if name not in found:
            yield f"there is no array {name}"
        kinds = {"audio": "i", "speakers": "U"}.get(name, "iu")
        if found[name].dtype.kind not in kinds or found[name].ndim != 1:
            yield f"array {name} must be one-dimensional, of {'text' if kinds == 'U' else 'integers'}"
    audio, offsets, labels, speakers, index = (found[name] for name in _PARTS)
    rate_hz = _rate(found) if "sample_rate" not in found or found["sample_rate"].dtype.kind in "iu" else 0
    if audio.dtype != np.int16:
        yield f"audio must be 16-bit integers, not {audio.dtype}"
    if not 4000 <= rate_hz <= 48000:
        yield f"a sample rate of {rate_hz} Hz is not between 4000 and 48000"
    if not len(labels) == len(speakers) == len(index) == len(offsets) - 1 or len(labels) == 0:
        yield f"{len(offsets)} offsets, {len(labels)} labels, {len(speakers)} speakers, {len(index)} indices do not fit"
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(audio) or int(offsets.max()) > len(audio):
        yield f"the offsets do not go from 0 to the {len(audio):,} samples of audio"
    lengths = np.diff(offsets.astype(np.int64))
    if lengths.min() < window_samples(rate_hz):
        yield f"clip {lengths.argmin()} has {lengths.min()} samples, less than one window of 25 ms"
    if labels.min() < 0 or labels.max() >= DIGITS:
        yield "labels must lie between 0 and 9"
    if (index < TEST_BELOW).all() or not (index < TEST_BELOW).any():
        yield f"there must be clips with an index below {TEST_BELOW} (the test set) and others"
