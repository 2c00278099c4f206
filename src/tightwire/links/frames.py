"""Tensors as a stream of bytes: announced first, received whole, and only then looked at.

    announcement   [["float32", [300, 784]], ["uint8", [17]]]
    stream         1 MiB pieces of the first tensor, then of the second

Memory is taken only for what was announced and is within bounds. A stream that ends early is refused: a sender that was
killed looks like one that is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.links.copying import copy_for
from tightwire.links.recycle import Recycler

PIECE_NBYTES = 1 << 20
_LARGE_NBYTES = 1 << 20
_ALIGNED = 64
MOST_NBYTES = 1 << 36  # of one message
_MOST_DIMENSIONS = 16
_MOST_TENSORS = 1 << 20
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16,
        torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
    )
}  # fmt: skip
Bytes = npt.NDArray[np.uint8]
_blocks = [Recycler()]


@dataclass(frozen=True)
class Frame:
    """One announced tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return prod(self.shape) * self.dtype.itemsize


def announce(tensors: Sequence[Tensor]) -> list[Any]:
    """What is about to come, as JSON data.

    >>> announce([torch.zeros(2, 3)])
    [['float32', [2, 3]]]
    """
    table = []
    for tensor in tensors:
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in _DTYPES:
            raise PayloadError(f"a tensor of {name} cannot travel; known are {', '.join(_DTYPES)}")
        table.append([name, list(tensor.shape)])
    return table


def expect(table: Any, most_nbytes: int = MOST_NBYTES) -> list[Frame]:
    """The tensors that an announcement names; refuses what is malformed or too large before anything is allocated."""
    if not isinstance(table, list) or len(table) > _MOST_TENSORS:
        raise PayloadError("an announcement is a list of tensors, at most a million")
    frames = [_frame(row) for row in table]
    total = sum(frame.nbytes for frame in frames)
    if total > most_nbytes:
        raise PayloadError(
            f"a message of {total:,} bytes is announced; at most {most_nbytes:,} are taken", reason="limit"
        )
    return frames


def _frame(row: Any) -> Frame:
    match row:
        case [str(name), list(shape)] if name in _DTYPES and len(shape) <= _MOST_DIMENSIONS:
            if all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape):
                return Frame(_DTYPES[name], tuple(shape))
    raise PayloadError(f"{str(row)[:80]} announces no tensor; [dtype, [sizes]] does")


def pieces(tensors: Sequence[Tensor]) -> Iterator[Bytes]:
    """The bytes of tensors, without copying what lies in this machine's memory in one piece."""
    for tensor in tensors:
        flat = flat_bytes(_on_host(tensor.detach()).contiguous())
        for start in range(0, flat.size, PIECE_NBYTES):
            yield flat[start : start + PIECE_NBYTES]


def flat_bytes(tensor: Tensor) -> Bytes:
    """The memory of a tensor that lies in one piece."""
    made: Bytes = tensor.detach().reshape(-1).view(torch.uint8).numpy()
    return made


def _on_host(tensor: Tensor) -> Tensor:
    """A GPU's tensor in pinned memory, which torch keeps and the GPU writes to by itself; others as they are."""
    if not tensor.is_cuda:
        return tensor
    staged = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    staged.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream(tensor.device).synchronize()
    return staged


def room_for(frames: Sequence[Frame]) -> list[Tensor]:
    """Tensors to put announced bytes into; large ones in memory that was used before."""
    total = laid_out_nbytes(frames)
    if total < _LARGE_NBYTES:
        return [torch.empty(frame.shape, dtype=frame.dtype) for frame in frames]
    return lay_out(frames, _blocks[0].take(total))


def receive_pinned() -> None:
    """From now on large messages are received into memory that a GPU reads by itself."""
    if _blocks[0].fresh is not _pinned:
        _blocks[:] = [Recycler(_pinned)]


def _pinned(nbytes: int) -> Bytes:
    made: Bytes = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()
    return made


def lay_out(frames: Sequence[Frame], block: Bytes) -> list[Tensor]:
    """Announced tensors as views of one block, one behind the other."""
    tensors, start = [], 0
    for frame in frames:
        flat = torch.from_numpy(block[start : start + frame.nbytes])
        tensors.append(flat.view(frame.dtype).reshape(frame.shape))
        start += _aligned(frame.nbytes)
    return tensors


def laid_out_nbytes(frames: Sequence[Frame]) -> int:
    """What they take one behind the other."""
    return sum(_aligned(frame.nbytes) for frame in frames)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNED) * _ALIGNED


class Staging:
    """Where announced tensors are put together, piece by piece."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._tensors = room_for(frames)
        self._copy = copy_for(laid_out_nbytes(frames))
        self._open = [flat for t in self._tensors if (flat := flat_bytes(t)).size]
        self._filled = 0  # of the first open one
        self._open.reverse()

    def take(self, piece: Bytes) -> None:
        """The next bytes; more than were announced are refused."""
        while piece.size:
            if not self._open:
                raise PayloadError(f"{piece.size} bytes more than were announced")
            into = self._open[-1]
            part = piece[: into.size - self._filled]
            self._copy(into[self._filled : self._filled + part.size], part)
            self._filled += part.size
            if self._filled == into.size:
                self._open.pop()
                self._filled = 0
            piece = piece[part.size :]

    def whole(self) -> list[Tensor]:
        """The tensors, if all of their bytes have come."""
        missing = sum(flat.size for flat in self._open) - self._filled
        if missing:
            raise PayloadError(f"the stream ended {missing} bytes early; nothing of it is used")
        return self._tensors
