"""Tensors between a GPU and the wire: through pinned memory, on streams of their own, while the GPU computes on.

    lift    queued so far ─▶ event ─▶ side stream: device → pinned ─▶ event    `here`: the CPU waits for this copy alone
    lower   pinned ─▶ side stream: pinned → device ─▶ event                    `here`: the stream waits, the CPU goes on

A CPU's tensors stay where they are. What a copy reads is held until the copy has ended: the next message may be
received into the same memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from tightwire.links.frames import receive_pinned


class Mark(Protocol):
    """The end of a copy (`torch.cuda.Event`)."""

    def query(self) -> bool:
        """Whether it has been reached."""
        ...

    def synchronize(self) -> None:
        """Wait for it."""
        ...


class Copies(Protocol):
    """Who copies, beside whatever is computed."""

    def lift(self, tensor: Tensor) -> tuple[Tensor, Mark]:
        """Start copying to the host, once what was queued before is done."""
        ...

    def lower(self, tensor: Tensor) -> tuple[Tensor, Mark, Tensor]:
        """Start copying to the device; the last tensor is the one that is read meanwhile."""
        ...

    def follow(self, mark: Mark, tensor: Tensor) -> None:
        """What is queued from now on comes after the mark, and uses the tensor."""
        ...


def _at_once() -> None:
    """There is nothing to wait for."""


@dataclass(frozen=True)
class Moving:
    """A tensor on its way to the other side."""

    _tensor: Tensor
    _arrive: Callable[[], None] = _at_once

    def here(self) -> Tensor:
        """The tensor, to be used from now on."""
        self._arrive()
        return self._tensor

    def part(self, start: int, numel: int) -> Moving:
        """A range of a flat one."""
        return replace(self, _tensor=self._tensor[start : start + numel])


class Staging:
    """One worker's way between its device and the host; without ``copies`` they are the same."""

    def __init__(self, copies: Copies | None = None) -> None:
        self._copies = copies
        self._held: list[tuple[Mark, Tensor]] = []  # read by copies that may not have ended

    def lift(self, tensor: Tensor) -> Moving:
        """To the host. The tensor must stay as it is until it is there."""
        if self._copies is None:
            return Moving(tensor)
        self._let_go()
        host, mark = self._copies.lift(tensor)
        return Moving(host, mark.synchronize)

    def lower(self, tensor: Tensor) -> Moving:
        """To the device."""
        copies = self._copies
        if copies is None:
            return Moving(tensor)
        self._let_go()
        there, mark, read = copies.lower(tensor)
        self._held.append((mark, read))
        return Moving(there, lambda: copies.follow(mark, there))

    def _let_go(self) -> None:
        self._held = [(mark, read) for mark, read in self._held if not mark.query()]


class CudaCopies:
    """On one GPU: a stream for each direction."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.up = torch.cuda.Stream(device)
        self.down = torch.cuda.Stream(device)

    def lift(self, tensor: Tensor) -> tuple[Tensor, Mark]:
        """Device → pinned."""
        filled = torch.cuda.current_stream(self._device).record_event()
        host = _pinned_like(tensor)
        with torch.cuda.stream(self.up):
            self.up.wait_event(filled)
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(self.up)  # its memory is nobody else's before the copy has ended
        return host, self.up.record_event(torch.cuda.Event(blocking=True))

    def lower(self, tensor: Tensor) -> tuple[Tensor, Mark, Tensor]:
        """Pinned → device. What came through memory shared with a server, or is small, is not pinned yet."""
        read = tensor if tensor.is_pinned() else _pinned_like(tensor).copy_(tensor)
        with torch.cuda.stream(self.down):
            there = read.to(self._device, non_blocking=True)
        return there, self.down.record_event(torch.cuda.Event(blocking=True)), read

    def follow(self, mark: Mark, tensor: Tensor) -> None:
        """The current stream waits."""
        assert isinstance(mark, torch.cuda.Event)
        current = torch.cuda.current_stream(self._device)
        current.wait_event(mark)
        tensor.record_stream(current)  # it was made on another


def _pinned_like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)  # torch keeps such memory, and gives it again


def staging_for(device: torch.device) -> Staging:
    """What a worker on this device needs; large messages are then received into pinned memory."""
    if device.type != "cuda":
        return Staging()
    receive_pinned()
    return Staging(CudaCopies(device))
