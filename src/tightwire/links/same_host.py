"""A worker and a server on one host: the call goes through Flight, its tensors through memory that both see.

    worker   lend ─▶ tensors into `up` ─▶ call: "memory": NAME ─▶ … ─▶ tensors out of `down`
    server   call ─▶ tensors are views of `up` ─▶ machine ─▶ reply's tensors into `down` ─▶ "memory": {…}

Who may call, how large a message may be and what is counted stay as they are. The first call of a size makes a segment;
later ones use it. A segment is used again only when nobody refers to what lay in it: the worker looks at `down` before
it lends, the server at `up` before it replies. One in which a call broke off is never used again, because the server
may still be reading it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tightwire.algebra.errors import PayloadError, UnknownMemory
from tightwire.links.frames import announce, expect, laid_out_nbytes
from tightwire.links.segment import Segment, can_share, make, open_offered

TAKEN = b"taken"
UNANSWERED = {"down": 0, "kept": 0}  # as long as every `answer`, so that it can be counted before
LEAST_NBYTES = 1 << 17  # smaller messages travel with their call
_GRAIN_NBYTES = 1 << 20
_MOST_OWN = 4  # segments of one worker at one server: as many replies as it keeps at a time
_MOST_OPEN = 64  # segments of one worker that a server opens: one for each thread, and those that were given up
_MOST_SPOILT = 8


@dataclass(frozen=True)
class Loan:
    """A segment for one call."""

    segment: Segment
    spoil: Callable[[], None]

    def read(self, told: Any, table: Any) -> list[Tensor] | None:
        """The tensors of a reply, if they came this way."""
        match told:
            case {"down": int(here), "kept": int(kept)}:
                if kept:  # the server has not finished with what we said
                    self.spoil()
                return self.segment.down.tensors(expect(table)) if here else None
        raise PayloadError("a reply does not say what became of the memory that was lent")


class Lender:
    """The segments of worker ``me`` at one server. ``offer`` tells the server of one and returns what it says to it."""

    def __init__(self, me: int, offer: Callable[[bytes], bytes] | None) -> None:
        self._me = me
        self._offer = offer if can_share() else None
        self._lock = threading.Lock()
        self._idle: list[Segment] = []
        self._given_up: list[str] = []  # the server is told with the next offer
        self._out = 0
        self._largest = 0  # reply
        self._spoilt = 0

    @contextmanager
    def lend(self, tensors: Sequence[Tensor]) -> Iterator[Loan | None]:
        """A segment with these tensors in it, or None where the socket is better, or the only way."""
        frames = expect(announce(tensors))
        segment = self._find(laid_out_nbytes(frames))
        if segment is None:
            yield None
            return
        spoilt: list[bool] = []
        try:
            segment.up.put(tensors, frames)
            yield Loan(segment, lambda: spoilt.append(True))
        except BaseException:
            spoilt.append(True)
            raise
        finally:
            with self._lock:
                self._out -= 1
                if spoilt:
                    self._spoilt += 1
                    self._offer = None if self._spoilt > _MOST_SPOILT else self._offer
                    self._given_up.append(segment.name)
                else:
                    self._idle.append(segment)

    def learn(self, tensors: Sequence[Tensor]) -> None:
        """What a reply looks like: the next segment has room for such a one."""
        self._largest = max(self._largest, laid_out_nbytes(expect(announce(tensors))))

    def forget(self) -> None:
        """The server may be another one by now."""
        with self._lock:
            self._idle, self._given_up = [], []

    def _find(self, up: int) -> Segment | None:
        """One that is idle and large enough, or a new one in the place of one that is not."""
        with self._lock:
            if self._offer is None or max(up, self._largest) < LEAST_NBYTES:
                return None
            free = [segment for segment in self._idle if segment.down.free]
            fitting = [s for s in free if s.up.nbytes >= up and s.down.nbytes >= self._largest]
            if fitting:
                self._idle.remove(fitting[0])
                self._out += 1
                return fitting[0]
            if not free and len(self._idle) + self._out >= _MOST_OWN:
                return None
            if free:
                self._idle.remove(free[0])
                self._given_up.append(free[0].name)
            made = self._make(max(up, free[0].up.nbytes if free else 0), self._offer)
            self._out += made is not None
            return made

    def _make(self, up: int, offer: Callable[[bytes], bytes]) -> Segment | None:
        segment, told, handle = make(_rounded(up), _rounded(self._largest))
        try:
            said = offer(json.dumps({**told, "from": self._me, "instead": self._given_up}).encode())
        finally:
            os.close(handle)
        if said == TAKEN:
            self._given_up = []
            return segment
        self._offer = None  # it will not be taken the next time either
        return None


class Borrowed:
    """The segments that workers of this host have offered to a server."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, Segment]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def take(self, raw: bytes) -> bytes:
        """Open what a worker offers; returns what to say to it."""
        try:
            offer = json.loads(raw)
            segment, rank = open_offered(offer), offer.get("from")
        except (PayloadError, ValueError, RecursionError) as error:
            return f"no: {error}".encode()
        if not isinstance(rank, int):
            return b"no: an offer says from whom it is"
        with self._lock:
            for name in _names(offer.get("instead")):
                if self._open.get(name, (None,))[0] == rank:
                    del self._open[name]
            if sum(owner == rank for owner, _ in self._open.values()) >= _MOST_OPEN:
                return f"no: rank {rank} has {_MOST_OPEN} segments here already".encode()
            self._open[segment.name] = rank, segment
        return TAKEN

    def find(self, rank: int, name: Any) -> Segment:
        """The segment that a call of this worker names."""
        owner, segment = self._open.get(name, (None, None)) if isinstance(name, str) else (None, None)
        if segment is None or owner != rank:
            raise UnknownMemory(f"a call of rank {rank} names memory that is not open here")
        return segment

    def forget(self, rank: int) -> None:
        """The worker is gone, or has left."""
        with self._lock:
            self._open = {name: entry for name, entry in self._open.items() if entry[0] != rank}


def answer(segment: Segment, tensors: Sequence[Tensor], table: Any) -> dict[str, int]:
    """What a reply says about the memory of its call; puts the reply's tensors there if they fit."""
    frames = expect(table)
    down = laid_out_nbytes(frames) > 0 and segment.down.fits(frames)
    if down:
        segment.down.put(tensors, frames)
    return {"down": int(down), "kept": int(not segment.up.free)}


def _names(given: Any) -> list[str]:
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _GRAIN_NBYTES) * _GRAIN_NBYTES
