"""Spoken digits: 42 features a frame as the formulas have them, 11 frames an input, labels by position."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.data.making import RATE_HZ, clips, clips_file
from tightwire.data import DataError, load
from tightwire.data.cepstra import CEPSTRA, features
from tightwire.data.speech import Windows


def one_frame(samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cepstra and energy of one window, written out term by term."""
    x = samples - samples.mean()
    energy = np.log(np.square(x).sum())
    x = np.concatenate([x[:1], x[1:] - 0.97 * x[:-1]])
    power = np.abs(np.fft.rfft(x * np.hamming(200), 256)) ** 2
    mel = np.linspace(2595 * np.log10(1 + 64 / 700), 2595 * np.log10(1 + 4000 / 700), 25)
    hz = 700 * (10 ** (mel / 2595) - 1)
    logs = []
    for a, b, c in zip(hz[:-2], hz[1:-1], hz[2:], strict=True):
        heights = [max(0, min((f - a) / (b - a), (c - f) / (c - b))) for f in np.arange(129) * 31.25]
        logs.append(np.log(sum(p * height for p, height in zip(power, heights, strict=True))))
    waves = [[np.cos(np.pi * k * (m + 0.5) / 23) for m in range(23)] for k in range(1, 14)]
    cepstra = [np.sqrt(2 / 23) * sum(e * w for e, w in zip(logs, wave, strict=True)) for wave in waves]
    return np.array([*cepstra, energy])


def test_static_features_follow_the_formula() -> None:
    made = clips()
    table, frames = features(made["audio"], made["offsets"].astype(np.int64), RATE_HZ)  # type: ignore[arg-type]
    for frame in (0, int(frames.first[-1]), len(table) - 1):
        clip = frames.clip[frame]
        begin = int(made["offsets"][clip]) + 80 * (frame - frames.first[frame])
        wanted = one_frame(made["audio"][begin : begin + 200].astype(np.float64))
        assert np.allclose(table[frame, : CEPSTRA + 1], wanted, atol=0.02)
    assert len(table) == sum(1 + (length - 200) // 80 for length in np.diff(made["offsets"]))


def test_derivatives_are_slopes_and_do_not_cross_clips() -> None:
    made = clips()
    table, frames = features(made["audio"], made["offsets"].astype(np.int64), RATE_HZ)  # type: ignore[arg-type]
    middle = int(frames.first[-1]) + 5
    static = table[:, :14]
    wanted = (static[middle + 1] - static[middle - 1] + 2 * (static[middle + 2] - static[middle - 2])) / 10
    assert np.allclose(table[middle, 14:28], wanted, atol=1e-4)
    alone, _ = features(made["audio"][: made["offsets"][1]], made["offsets"][:2].astype(np.int64), RATE_HZ)  # type: ignore[arg-type]
    assert np.allclose(alone, table[: len(alone)], atol=1e-4)


@pytest.mark.parametrize("normalise", ["global", "speaker"])
def test_462_inputs_with_the_moments_of_the_training_set(normalise: str, tmp_path: Path) -> None:
    data = load("speech", clips_file(tmp_path), normalise=normalise)
    assert isinstance(data.train, Windows)
    assert (data.inputs, data.classes, data.task) == ((462,), 500, "classify")
    x, y = data.train.batch(torch.arange(len(data.train)))
    assert x.shape == (len(data.train), 462) and x.dtype == torch.float32
    centre = x[:, 5 * 42 : 6 * 42]
    assert centre.mean(0).abs().max() < 1e-4
    assert (centre.std(0, correction=0) - 1).abs().max() < 1e-3
    assert y.min() >= 0 and y.max() < 500


def test_neighbours_are_stacked_and_ends_repeated(tmp_path: Path) -> None:
    data = load("speech", clips_file(tmp_path), states=1)
    assert isinstance(data.test, Windows)
    x, y = data.test.batch(torch.arange(len(data.test)))
    frames = x.unflatten(1, (11, 42))
    length = int((y == y[0]).sum())
    for place in (0, 3, length - 1):
        for offset in range(-5, 6):
            other = min(max(place + offset, 0), length - 1)
            assert torch.equal(frames[place, 5 + offset], frames[other, 5])


@given(st.integers(1, 80))
def test_labels_go_through_the_states_of_a_digit_in_order(states: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tightwire.data.speech.read_clips", lambda path, where: read(path))
        data = load("speech", Path("unused.npz"), states=states)
    assert isinstance(data.test, Windows)
    assert data.classes == len(data.names) == 10 * states
    first = data.test.labels[data.test.labels < states]
    assert first[0] == 0 and (first.diff() >= 0).all()
    steps = first.bincount(minlength=states)
    assert steps.max() - steps.min() <= 1


def read(_: Path) -> Any:
    from tightwire.data.clips import Clips  # noqa: PLC0415

    made: Any = clips()
    whole = {name: made[name].astype(np.int64) for name in ("offsets", "labels", "index")}
    return Clips(made["audio"], whole["offsets"], whole["labels"], made["speakers"], whole["index"], RATE_HZ)


def test_the_first_five_recordings_are_the_test_set(tmp_path: Path) -> None:
    made = clips()
    data = load("speech", clips_file(tmp_path), states=1)
    assert isinstance(data.train, Windows) and isinstance(data.test, Windows)
    counts = 1 + (np.diff(made["offsets"]) - 200) // 80
    assert len(data.test) == counts[made["index"] < 5].sum()  # type: ignore[operator]
    assert len(data.train) == counts[made["index"] >= 5].sum()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"audio": clips()["audio"].astype(np.int32)}, "16-bit"),
        ({"audio": clips()["audio"].astype(np.float32)}, "neither of integers nor of text"),
        ({"audio": clips()["audio"][:-1]}, "offsets do not go from 0"),
        ({"audio": clips()["audio"].reshape(1, -1)}, "does not fit"),
        ({"offsets": clips()["offsets"][:-1]}, "do not fit"),
        ({"offsets": clips()["offsets"][::-1]}, "offsets do not go from 0"),
        ({"labels": np.full(12, 10, np.uint8)}, "between 0 and 9"),
        ({"labels": np.array(["one"] * 12)}, "labels must be one-dimensional, of integers"),
        ({"speakers": np.zeros(12, np.int64)}, "speakers must be one-dimensional, of text"),
        ({"speakers": np.array([object()] * 12)}, "neither of integers nor of text"),
        ({"index": np.full(12, 9, np.uint8)}, "index below 5"),
        ({"index": np.zeros(12, np.uint8)}, "index below 5"),
        ({"sample_rate": np.array(0)}, "0 Hz"),
        ({"sample_rate": np.array("fast")}, "0 Hz"),
        ({"offsets": np.concatenate([[0, 199], clips()["offsets"][2:]])}, "clip 0 has 199 samples, less than"),
    ],
)  # fmt: skip
def test_files_whose_parts_do_not_fit_are_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = clips_file(tmp_path, **changes)
    with pytest.raises(DataError, match=says):
        load("speech", path)


def test_arrays_that_lie_about_their_size_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = clips_file(tmp_path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    count = len(clips()["audio"])
    parts["audio.npy"] = parts["audio.npy"].replace(f"({count},)".encode(), b"(9999999999999,)")
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in parts.items():
            archive.writestr(name, body)
    with pytest.raises(DataError, match="does not fit its"):
        load("speech", path)


def test_a_missing_array_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **{k: v for k, v in clips().items() if k != "offsets"})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="there is no array offsets"):
        load("speech", tmp_path)


def test_a_speaker_without_training_clips_cannot_be_normalised(tmp_path: Path) -> None:
    speakers = np.array(["new"] + ["old"] * 11)
    path = clips_file(tmp_path, speakers=speakers)
    assert load("speech", path).classes == 500
    with pytest.raises(DataError, match="new has only test clips"):
        load("speech", path, normalise="speaker")
