"""A process of ours made ready for messages of hundreds of megabytes: malloc keeps, and copies go past the cache."""

from __future__ import annotations

from functools import cache

from tightwire.links.copying import Copy, copy_large_with
from tightwire.links.malloc import keep_memory


def make_quick() -> None:
    """Tune this process, before anything loads gRPC."""
    keep_memory()
    copy_large_with(_past_the_cache)


@cache
def _past_the_cache() -> Copy | None:
    try:
        from tightwire.kernels.numba_stream import stream  # noqa: PLC0415 -- loads a compiler
    except ImportError:
        return None
    return stream
