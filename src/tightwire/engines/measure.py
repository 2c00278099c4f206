"""Seconds, bytes and the kernel's counters of the training itself, bracketed by barriers.

What happens in a `pause` (writing a checkpoint) is training neither in time nor in bytes. Figures are means over the
workers, so that trees and rings, whose ranks send differently, compare.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tightwire.lab.counters import Counters, own_counters
from tightwire.run.together import now
from tightwire.run.wire import Wire


@dataclass
class Bracket:
    """A measurement of one worker."""

    wire: Wire
    link: str
    seconds: float = 0.0
    pretended: float | None = None  # how long it would have taken workers that only pretend to take time
    first_step: int = 0
    _began: float = 0.0
    _counted: list[Counters] = field(default_factory=list)
    _paused: list[Counters] = field(default_factory=list)

    def begin(self) -> None:
        """All workers are ready: start."""
        self.wire.agree(False)
        self.first_step = self.wire.clock
        self._note(self._counted)
        self._began = time.perf_counter()

    def end(self) -> None:
        """All workers are done: stop."""
        self.wire.agree(False)
        self.seconds += time.perf_counter() - self._began
        self.pretended = now()
        self._note(self._counted)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """What happens inside does not count."""
        self.wire.agree(False)
        begin = time.perf_counter()
        self._note(self._paused)
        try:
            yield
        finally:
            self.wire.agree(False)
            self._note(self._paused)
            self.seconds -= time.perf_counter() - begin

    def summary(self) -> dict[str, Any]:
        """The means over all workers: the same on every one."""
        ledger = self.wire.ledger
        mine = {
            "tx_bytes": ledger.tx_bytes,
            "rx_bytes": ledger.rx_bytes,
            "measured_tx_bytes": self._measured("tx_bytes"),
            "measured_rx_bytes": self._measured("rx_bytes"),
            "payload_bytes": ledger.payload_bytes,
            "dense_bytes": ledger.dense_bytes,
        }
        every = [json.loads(said) for said in self.wire.everyones(json.dumps(mine).encode())]
        mean = {key: _mean([one[key] for one in every]) for key in mine}
        ratio = mean["dense_bytes"] / mean["payload_bytes"] if mean["payload_bytes"] else None
        kept = ("tx_bytes", "rx_bytes", "measured_tx_bytes", "measured_rx_bytes")
        return {"payload_ratio": ratio, **{key: mean[key] for key in kept}, "link": self.link}

    def _note(self, into: list[Counters]) -> None:
        counters = own_counters()
        if counters is not None:
            into.append(counters)

    def _measured(self, name: str) -> int | None:
        """The kernel's count between begin and end, less what the pauses took; None outside the lab."""
        if len(self._counted) != 2:
            return None
        noted = [getattr(counters, name) for counters in self._paused]
        paused = sum(after - before for before, after in zip(noted[::2], noted[1::2], strict=True))
        total: int = getattr(self._counted[1], name) - getattr(self._counted[0], name) - paused
        return total


def _mean(values: list[Any]) -> Any:
    return None if any(value is None for value in values) else sum(values) / len(values)
