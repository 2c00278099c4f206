"""What one connection may have under way: calls, and bytes of messages that were announced. More is refused.

Also the count of everything a server refused, by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from tightwire.algebra.errors import AccessError, PayloadError, UnknownMemory
from tightwire.links.limits import Limits


class Guard:
    """Counts per connection; a context manager for each thing that is counted.

    >>> guard = Guard(Limits(client_streams=1))
    >>> with guard.stream("a"), guard.stream("b"): guard.refused
    Counter()
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.refused: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._nbytes: Counter[str] = Counter()
        self._lock = Lock()

    def refuse(self, error: Exception) -> None:
        """Count an error that is a refusal."""
        reason = getattr(error, "reason", None) or ("token" if isinstance(error, AccessError) else None)
        if reason is not None and not isinstance(error, UnknownMemory):  # that one is asked again by itself
            self.count(reason, 1)

    def count(self, reason: str, times: int) -> None:
        """So many were refused."""
        if times:
            with self._lock:
                self.refused[reason] += times

    @contextmanager
    def stream(self, peer: str) -> Iterator[None]:
        """One call of a connection."""
        with self._held(self._streams, peer, 1, self.limits.client_streams, "calls at a time"):
            yield

    @contextmanager
    def memory(self, peer: str, nbytes: int) -> Iterator[None]:
        """The bytes of a message, from its announcement until it is answered."""
        with self._held(self._nbytes, peer, nbytes, self.limits.client_nbytes, "bytes under way"):
            yield

    @contextmanager
    def _held(self, counts: Counter[str], peer: str, amount: int, most: int, what: str) -> Iterator[None]:
        with self._lock:
            total = counts[peer] + amount
            if total > most:
                raise PayloadError(f"a connection with {total:,} {what}; at most {most:,} are let in", reason="limit")
            counts[peer] = total
        try:
            yield
        finally:
            with self._lock:
                counts[peer] -= amount
                if not counts[peer]:
                    del counts[peer]
