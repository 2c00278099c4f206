"""Spoken digits, frame by frame: which digit is being said, and how far into the word?

Inputs are those of hybrid speech recognisers: 42 features every 10 ms (`cepstra`), 11 neighbouring frames side by side,
462 in all. The classes stand in for the tied states such recognisers align to: frame t of T in a clip of digit d has
the label d·S + ⌊t·S/T⌋, with S states a digit. Clips with an index below 5 are the test set.

Free Spoken Digit Dataset, Jackson et al., github.com/Jakobovski/free-spoken-digit-dataset (CC BY-SA 4.0).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightwire.data.cepstra import FEATURES, Frames, features
from tightwire.data.clips import DIGITS, TEST_BELOW, Clips, read_clips
from tightwire.data.errors import DataError, at_least_one, one_of
from tightwire.data.files import only
from tightwire.data.names import describe
from tightwire.data.rows import Rows, Sample
from tightwire.data.values import Data

AROUND = 5  # frames on each side
STACKED = 2 * AROUND + 1
Normalise: TypeAlias = Literal["global", "speaker"]


class Windows(Rows):
    """Frames with their neighbours, put together when they are picked; both sets share one table of frames."""

    def __init__(self, table_FD: Tensor, frames: Frames, chosen_N: Tensor, labels: Tensor) -> None:
        self.labels = labels
        self._table_FD = table_FD
        self._chosen_N = chosen_N
        self._first_N, self._last_N = (torch.from_numpy(one)[chosen_N] for one in (frames.first, frames.last))

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index_B: Tensor) -> Sample:
        """The frames around these, side by side; beyond the ends of a clip its end is repeated."""
        place_BW = self._chosen_N[index_B, None] + torch.arange(-AROUND, AROUND + 1)
        place_BW = place_BW.clamp(self._first_N[index_B, None], self._last_N[index_B, None])
        return self._table_FD[place_BW].flatten(1), self.labels[index_B]


def speech(folder: Path | None, *, states: int = 50, normalise: Normalise = "global") -> Data:
    """462 features a frame; ``states`` positions in each of the ten digits are the classes.

    Features are normalised by their mean and deviation in the training set, of all speakers or of each one.
    """
    at_least_one(states=states)
    one_of("normalise", normalise, ("global", "speaker"))
    where = describe("speech").where
    if folder is None:
        raise DataError(f"speech needs its file; {where}")
    path = only(folder, "*.npz", where) if folder.is_dir() else folder
    clips, table_FD, frames, is_test_F = _prepared(path, path.stat().st_mtime_ns if path.exists() else 0, normalise)
    label_F = torch.from_numpy(_labels(clips, frames, states))
    chosen = [torch.from_numpy(np.flatnonzero(part)) for part in (~is_test_F, is_test_F)]
    train, test = (Windows(torch.from_numpy(table_FD), frames, part, label_F[part]) for part in chosen)
    names = tuple(f"{digit}.{state}" for digit in range(DIGITS) for state in range(states))
    return Data("speech", train, test, (STACKED * FEATURES,), DIGITS * states, names=names)


@lru_cache(maxsize=1)
def _prepared(
    path: Path, changed_ns: int, normalise: Normalise
) -> tuple[Clips, NDArray[np.float32], Frames, NDArray[np.bool_]]:
    """Clips and the features of their frames, which workers of one process share: nobody writes to them."""
    clips = read_clips(path, describe("speech").where)
    table_FD, frames = features(clips.audio, clips.offsets, clips.rate_hz)
    is_test_F = (clips.index < TEST_BELOW)[frames.clip]
    speaker_F = (clips.speakers if normalise == "speaker" else np.full_like(clips.speakers, "anybody"))[frames.clip]
    for speaker in np.unique(speaker_F):
        _normalise_(table_FD, speaker_F == speaker, is_test_F, str(speaker))
    return clips, table_FD, frames, is_test_F


def _labels(clips: Clips, frames: Frames, states: int) -> NDArray[np.int64]:
    position_F = np.arange(len(frames.clip)) - frames.first
    return clips.labels[frames.clip] * states + position_F * states // (frames.last - frames.first + 1)


def _normalise_(
    table_FD: NDArray[np.float32], mine_F: NDArray[np.bool_], is_test_F: NDArray[np.bool_], speaker: str
) -> None:
    training = table_FD[mine_F & ~is_test_F]
    if len(training) == 0:
        raise DataError(f"{speaker} has only test clips (index below {TEST_BELOW}); use normalise='global'")
    deviation = np.maximum(training.std(0, dtype=np.float64), 1e-3)
    table_FD[mine_F] = (table_FD[mine_F] - training.mean(0, dtype=np.float64)) / deviation
