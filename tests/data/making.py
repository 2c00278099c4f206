"""Small files in the official formats, made by hand."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

RATE_HZ = 8000


def idx(array: NDArray[np.uint8]) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def idx_files(folder: Path, *, train: int = 7, test: int = 4, packed: bool = False) -> dict[str, NDArray[np.uint8]]:
    random = np.random.default_rng(1)
    arrays = {}
    for stem, count in (("train", train), ("t10k", test)):
        arrays[f"{stem}-images-idx3-ubyte"] = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        arrays[f"{stem}-labels-idx1-ubyte"] = random.integers(0, 10, count, dtype=np.uint8)
    for name, array in arrays.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array), mtime=0))
        else:
            (folder / name).write_bytes(idx(array))
    return arrays


def cifar_arrays(records: int = 3) -> dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    random = np.random.default_rng(2)
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    return {
        name: (
            random.integers(0, 10, records, dtype=np.uint8),
            random.integers(0, 256, (records, 3072), dtype=np.uint8),
        )
        for name in names
    }


def cifar_binary(labels: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> bytes:
    return np.concatenate([labels[:, None], pixels], axis=1).tobytes()


def cifar_pickle(labels: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> bytes:
    """Protocol 2 as Python 2 wrote the official files: byte strings, a dict, numpy's reconstruction."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes((len(value),)) + value

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x06cnumpy\nndarray\nq\x07" + b"K\x00\x85" + text(b"b") + b"\x87R"
        b"q\x08(K\x01" + number(len(labels)) + number(3072) + b"\x86"
        b"cnumpy\ndtype\nq\x09" + text(b"u1") + b"K\x00K\x01\x87Rq\x0a(K\x03" + text(b"|") + b"NNN"
        + number(-1) + number(-1) + b"K\x00tb\x89"
        b"T" + struct.pack("<i", pixels.size) + pixels.tobytes() + b"tb"
    )  # fmt: skip
    entries = (
        text(b"batch_label") + b"q\x02" + text(b"training batch 1 of 5")
        + text(b"labels") + b"]q\x05(" + b"".join(b"K" + bytes((label,)) for label in labels.tolist()) + b"e"
        + text(b"data") + array
        + text(b"filenames") + b"](" + b"".join(text(b"leptodactylus_pentadactylus_s_4.png") for _ in labels) + b"e"
    )  # fmt: skip
    return b"\x80\x02}q\x01(" + entries + b"u."


def cifar_files(
    folder: Path, made: Callable[[NDArray[np.uint8], NDArray[np.uint8]], bytes], suffix: str, records: int = 3
) -> dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    arrays = cifar_arrays(records)
    for name, (labels, pixels) in arrays.items():
        (folder / f"{name}{suffix}").write_bytes(made(labels, pixels))
    return arrays


def text_files(folder: Path) -> None:
    random = np.random.default_rng(3)
    words = np.array([f"word{number}" for number in range(30)])
    for part, lines in (("train", 60), ("valid", 15), ("test", 15)):
        rows = [" " + " ".join(random.choice(words, random.integers(0, 12))) for _ in range(lines)]
        (folder / f"small.{part}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")


def clips(*, count: int = 12) -> dict[str, NDArray[np.generic]]:
    """Tones, one pitch a digit, by two speakers; index 0, 1, … by turns."""
    random = np.random.default_rng(4)
    labels = np.arange(count) % 10
    lengths = random.integers(1200, 2400, count)
    time_s = [np.arange(length) / RATE_HZ for length in lengths]
    tones = [np.hanning(len(t)) * np.sin(2 * np.pi * (300 + 250 * d) * t) for d, t in zip(labels, time_s, strict=True)]
    audio = np.concatenate(tones) * 8000 + random.normal(0, 100, lengths.sum())
    return {
        "audio": audio.astype(np.int16),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "labels": labels.astype(np.uint8),
        "speakers": np.array(["ann", "bob"] * (count // 2)),
        "index": (np.arange(count) // 2).astype(np.uint8),
        "sample_rate": np.array(RATE_HZ),
    }


def clips_file(folder: Path, **changes: NDArray[np.generic]) -> Path:
    path = folder / "clips.npz"
    np.savez_compressed(path, **{**clips(), **changes})  # type: ignore[arg-type]
    return path


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """What happens to files: they are cut, get longer, lose a piece, have bytes changed, or are something else."""
    kind = draw(st.sampled_from(["cut", "grown", "gap", "changed", "changed early", "foreign", "empty"]))
    where = draw(st.floats(0, 1, exclude_max=True))
    other = draw(st.binary(min_size=1, max_size=12))

    def damaged(body: bytes) -> bytes:
        place = int(where * (min(len(body), 200) if kind == "changed early" else len(body)))
        if kind == "cut":
            return body[:place]
        if kind == "grown":
            return body + other
        if kind == "gap":
            return body[:place] + body[place + len(other) :]
        if kind == "foreign":
            return other
        return b"" if kind == "empty" else body[:place] + other + body[place + len(other) :]

    return damaged
