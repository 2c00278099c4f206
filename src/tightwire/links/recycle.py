"""Large blocks of memory, used again as soon as nobody refers to them.

A fresh block of 100 MB costs 25 thousand page faults, more than the bytes that are then put into it. Whoever takes a
block cuts arrays and tensors out of it; they hold it, and whatever is made of them in turn. When the last of them is
gone, the next message gets the block. Nobody gives anything back, so nobody can do so too early.
"""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Block = npt.NDArray[np.uint8]
_MOST_KEPT = 8  # blocks that nobody uses
_GRAIN_NBYTES = 2 << 20  # a huge page


class Recycler:
    """The blocks of one process; ``fresh`` makes one, whose memory nothing else holds.

    >>> recycler = Recycler()
    >>> first = recycler.take(5 << 20)
    >>> recycler.take(5 << 20) is first
    False
    >>> del first
    >>> recycler.take(5 << 20).nbytes, recycler.blocks
    (6291456, 2)
    """

    def __init__(self, fresh: Callable[[int], Block] | None = None) -> None:
        self.fresh = fresh or _mapped
        self._blocks: list[Block] = []
        self._lock = threading.Lock()

    @property
    def blocks(self) -> int:
        """How many there are, used and unused."""
        return len(self._blocks)

    def take(self, nbytes: int) -> Block:
        """A block of at least that size, and not much more; what is in it is anything."""
        with self._lock:
            counts = _references(self._blocks)
            free = [block for block, count in zip(self._blocks, counts, strict=True) if count == _UNUSED]
            fitting = [block for block in free if nbytes <= block.nbytes <= 2 * nbytes + _GRAIN_NBYTES]
            if fitting:
                return min(fitting, key=len)
            gone = {id(block) for block in free[: max(0, len(free) - _MOST_KEPT + 1)]}  # the oldest
            del free, fitting
            self._blocks = [block for block in self._blocks if id(block) not in gone]
            self._blocks.append(self.fresh(-(-max(nbytes, 1) // _GRAIN_NBYTES) * _GRAIN_NBYTES))
            return self._blocks[-1]


def _references(blocks: list[Block]) -> list[int]:
    return [sys.getrefcount(block) for block in blocks]


_UNUSED = _references([np.zeros(1, dtype=np.uint8)])[0]  # of a block in a list, and nowhere else


def _mapped(nbytes: int) -> Block:
    memory = mmap.mmap(-1, nbytes)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint8)
