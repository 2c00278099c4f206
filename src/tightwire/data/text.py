"""Words of a text, to predict the next one: C parallel streams, cut into segments of T words.

                stream 0   w₀      w₁      …  │ w_T     …  │ …          sample s·C + c: segment s of stream c, and
                stream 1   w_L     w_{L+1} …  │ w_{L+T} …  │ …          the same words one further on
                           segment 0            segment 1

So C samples in a row, taken in order, are one segment of all streams, and the next C go on where they ended: a model
may carry its hidden state. What is left over (fewer than C words, and less than a segment of each stream) is not used.

Mikolov, Karafiát, Burget, Černocký, Khudanpur: Recurrent neural network based language model. Interspeech 2010.
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightwire.data.errors import DataError, at_least_one
from tightwire.data.files import only, reading
from tightwire.data.names import describe
from tightwire.data.rows import Rows, Sample
from tightwire.data.values import Data

MAX_NBYTES = 1 << 30
PARTS = ("train", "valid", "test")
END, UNKNOWN = "<eos>", "<unk>"
WHERE = describe("text").where


class Segments(Rows):
    """Segments of parallel streams of one text; index = segment · columns + column."""

    def __init__(self, tokens_N: Tensor, *, columns: int, bptt: int) -> None:
        length = len(tokens_N) // columns
        self.columns = columns
        self.bptt = bptt
        self.streams_CL = tokens_N[: columns * length].reshape(columns, length)
        self._segments = max(0, length - 1) // bptt

    def __len__(self) -> int:
        return self._segments * self.columns

    def batch(self, index_B: Tensor) -> Sample:
        """The words of these segments, and those that follow each."""
        column_B1 = (index_B % self.columns)[:, None]
        place_BT = (index_B // self.columns)[:, None] * self.bptt + torch.arange(self.bptt)
        return self.streams_CL[column_B1, place_BT], self.streams_CL[column_B1, place_BT + 1]


def text(folder: Path | None, *, columns: int = 20, bptt: int = 35, at_least: int = 1) -> Data:
    """A text with a vocabulary from its training part; each line ends with the word <eos>.

    ``columns`` is the number of streams: the batch of all workers together. Words that the training part has fewer than
    ``at_least`` times become <unk>. One single file is cut into 90% training, 5% validation and 5% test text.
    """
    at_least_one(columns=columns, bptt=bptt, at_least=at_least)
    if folder is None:
        raise DataError(f"text needs its files; {WHERE}")
    words: dict[str, int] = {END: 0, UNKNOWN: 1}
    parts = {path.name: numbers(path, words) for path in _files(folder)}
    if len(parts) == 1:
        ((name, whole),) = parts.items()
        cuts = [round(0.90 * len(whole)), round(0.95 * len(whole))]
        training, validation, test = np.split(whole, cuts)
        parts = {f"the first 90% of {name}": training, f"5% of {name}": validation, f"the last 5% of {name}": test}
    vocabulary, renumbered = _from_training(list(words), list(parts.values()), at_least)
    sets = [Segments(torch.from_numpy(part), columns=columns, bptt=bptt) for part in renumbered]
    for (name, part), one in zip(parts.items(), sets, strict=True):
        if len(one) == 0:
            raise DataError(
                f"{name} has {len(part):,} words, fewer than {columns} streams of {bptt + 1}; ask for fewer columns "
                f"(now {columns}), a smaller bptt (now {bptt}), or give more text"
            )
    train, valid, final = sets
    return Data("text", train, final, (bptt,), len(vocabulary), "language", valid, columns, vocabulary)


def _files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise DataError(f"there is no {folder}; {WHERE}")
    every = list(folder.glob("*.txt"))
    if len(every) == 1 and not any(part in every[0].name for part in PARTS):
        return every
    return [only(folder, f"*{part}*.txt", WHERE) for part in PARTS]


def numbers(path: Path, words: dict[str, int]) -> NDArray[np.int64]:
    """The words of a file as numbers; ``words`` grows by those it did not know."""
    found = array("q")
    with reading(path, WHERE):
        if path.stat().st_size > MAX_NBYTES:
            raise DataError(f"{path} has more than {MAX_NBYTES:,} bytes, too many for memory; cut it")
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    if "\0" in line:
                        raise DataError(f"{path} holds zero bytes and is no text; {WHERE}")
                    found.extend([words.setdefault(word, len(words)) for word in line.split()])
                    found.append(words[END])
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}); {WHERE}") from error
    return np.frombuffer(found, np.int64)


def _from_training(
    words: list[str], parts: list[NDArray[np.int64]], at_least: int
) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    """The vocabulary of the first part, and all parts renumbered: a word that is not in it becomes <unk>."""
    kept = np.bincount(parts[0], minlength=len(words)) >= at_least
    kept[:2] = True  # <eos>, <unk>
    new = np.where(kept, np.cumsum(kept) - 1, 1)
    return tuple(word for word, keep in zip(words, kept, strict=True) if keep), [new[part] for part in parts]
