"""Memory that two processes of one host see: made by a worker, opened by its server.

    head   32 bytes that only its maker knows       up   what the worker says       down   what the server says

It is a file without a name (memfd), sealed so that it cannot shrink under the other side's feet, and gone with the last
process that has it open, however that one ends: nothing can be left lying about. The server opens it through the
worker's `/proc` entry, and believes it only if the head is what the offer says.
"""

from __future__ import annotations

import fcntl
import hmac
import mmap
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.links.access import this_host
from tightwire.links.copying import copy_for
from tightwire.links.frames import Bytes, Frame, flat_bytes, laid_out_nbytes, lay_out

_HEAD_NBYTES = 4096  # a page, so that both areas begin with one
_SECRET_NBYTES = 32
_MOST_NBYTES = 1 << 36
_SEALS = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_SEAL")


class Area:
    """One direction of a segment. Tensors are views of it, and it knows whether any of them is left."""

    def __init__(self, array: Bytes) -> None:
        self._array = array

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self._array.nbytes

    @property
    def free(self) -> bool:
        """Whether nobody refers to tensors in it, nor to anything that was made of them."""
        return self._references() == _ALONE

    def fits(self, frames: Sequence[Frame]) -> bool:
        """Whether these tensors have room here."""
        return laid_out_nbytes(frames) <= self.nbytes

    def tensors(self, frames: Sequence[Frame]) -> list[Tensor]:
        """What lies here, read as these tensors."""
        if not self.fits(frames):
            raise PayloadError(f"{laid_out_nbytes(frames):,} bytes are announced in memory of {self.nbytes:,}")
        return lay_out(frames, self._array)

    def put(self, tensors: Sequence[Tensor], frames: Sequence[Frame]) -> None:
        """Copy tensors here."""
        copy = copy_for(laid_out_nbytes(frames))
        for place, tensor in zip(self.tensors(frames), tensors, strict=True):
            if tensor.is_contiguous() and not tensor.is_cuda and torch.get_num_threads() == 1:
                copy(flat_bytes(place), flat_bytes(tensor))
            else:
                place.copy_(tensor.detach())

    def _references(self) -> int:
        return sys.getrefcount(self._array)


_ALONE = Area(np.zeros(1, dtype=np.uint8))._references()


@dataclass(frozen=True)
class Segment:
    """Both directions, and the name that the two processes call it by."""

    name: str
    up: Area
    down: Area


def can_share() -> bool:
    """Whether this system has such memory."""
    return hasattr(os, "memfd_create") and all(hasattr(fcntl, seal) for seal in _SEALS)


# ── the worker ────────────────────────────────────────────────────────────────────────────────────────────────────


def make(up_nbytes: int, down_nbytes: int) -> tuple[Segment, dict[str, Any], int]:
    """A segment, what to tell the server about it, and the descriptor to close once the server has opened it."""
    handle = os.memfd_create("tightwire", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(handle, _HEAD_NBYTES + up_nbytes + down_nbytes)
        fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        name = secrets.token_hex(_SECRET_NBYTES)
        memory = mmap.mmap(handle, 0)
        memory[:_SECRET_NBYTES] = bytes.fromhex(name)
    except BaseException:
        os.close(handle)
        raise
    offer = {
        "host": this_host(), "pid": os.getpid(), "handle": handle, "name": name, "up": up_nbytes, "down": down_nbytes,
    }  # fmt: skip
    return _cut(name, memory, up_nbytes, down_nbytes), offer, handle


# ── the server ────────────────────────────────────────────────────────────────────────────────────────────────────


def open_offered(offer: Any) -> Segment:
    """The segment of an offer, once everything that the offer says has been seen to be so."""
    match offer:
        case {
            "host": str(host), "pid": int(pid), "handle": int(number),
            "name": str(name), "up": int(up), "down": int(down),
        }:  # fmt: skip
            if host != this_host() or not can_share():
                raise PayloadError("memory was offered by another host")
            if min(pid, number, up, down) < 0 or up + down > _MOST_NBYTES or len(name) != 2 * _SECRET_NBYTES:
                raise PayloadError("memory was offered whose size or name cannot be")
            return _cut(name, _mapped(pid, number, name, _HEAD_NBYTES + up + down), up, down)
    raise PayloadError("an offer of memory says whose it is, where, how large, and its name")


def _mapped(pid: int, number: int, name: str, nbytes: int) -> mmap.mmap:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            raise PayloadError(f"memory was offered in the name of process {pid}, which is another user's")
        handle = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            sealed = fcntl.fcntl(handle, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
            if not sealed or os.fstat(handle).st_size != nbytes:
                raise PayloadError("memory was offered that may shrink, or has another size than was said")
            memory = mmap.mmap(handle, nbytes)
        finally:
            os.close(handle)
    except OSError as error:
        raise PayloadError(f"memory of process {pid} cannot be opened: {error.strerror}") from None
    if not hmac.compare_digest(memory[:_SECRET_NBYTES].hex(), name):
        raise PayloadError("memory was offered under a name that is not its own")
    return memory


def _cut(name: str, memory: mmap.mmap, up: int, down: int) -> Segment:
    """Each area is an array of its own: views of a view would refer to the whole."""
    areas = [
        Area(np.frombuffer(memory, dtype=np.uint8, count=size, offset=start) if size else np.zeros(0, dtype=np.uint8))
        for start, size in ((_HEAD_NBYTES, up), (_HEAD_NBYTES + up, down))
    ]
    return Segment(name, *areas)
