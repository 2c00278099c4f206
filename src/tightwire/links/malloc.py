"""glibc's malloc, told to keep the memory it has: gRPC takes and returns megabytes for every message.

Left alone, malloc gives such blocks back to the kernel and gets them again, thousands of page faults for 100 MB. The
settings hold for the whole process, so they are made only in processes that we start ourselves, before gRPC's first
thread; in a script of yours `tightwire.links.malloc.keep_memory()` does the same. Without glibc nothing happens.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # malloc.h
_SETTINGS = {
    _MMAP_THRESHOLD: 32 << 20,  # smaller blocks come from the heap,
    _TRIM_THRESHOLD: 2**31 - 1,  # which never shrinks
    _TOP_PAD: 64 << 20,  # and grows in large steps
    _ARENA_MAX: 1,
}


def keep_memory() -> bool:
    """Tune this process; False where its C library has no such knobs."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    taken = [bool(mallopt(knob, value)) for knob, value in _SETTINGS.items()]
    return all(taken)
