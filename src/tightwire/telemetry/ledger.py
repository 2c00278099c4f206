"""Every byte this worker handed to the transport, and every byte it was handed.

Rows are sums over the run, by phase (what the bytes are for), group (which tensors), direction, and how we know them:

    counted     our executor counted what it handed over
    modelled    a native collective hides its bytes: this is what its graph should move

Three numbers sum them up, and are never mixed: *payload ratio* (dense gradient bytes ÷ encoded bytes that this worker
produced), *tx* and *rx* (bytes sent and received, all phases of the exchange).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

Phase = Literal["exchange", "ask", "answer", "setup", "agree", "boundary"]
"""exchange: payloads · ask: a codec's earlier rounds · boundary: activations · the rest is not training traffic."""

TRAINING: tuple[Phase, ...] = ("exchange", "ask", "boundary")
Direction = Literal["tx", "rx"]
Known = Literal["counted", "modelled"]


@dataclass(frozen=True)
class Key:
    """What a row is about."""

    phase: Phase
    group: str
    direction: Direction
    known: Known


class Ledger:
    """Bytes of one worker.

    >>> ledger = Ledger()
    >>> ledger.moved("exchange", "w", tx=100, rx=50, known="counted"); ledger.tx_bytes, ledger.rx_bytes
    (100, 50)
    """

    def __init__(self) -> None:
        self._bytes: Counter[Key] = Counter()
        self._lock = Lock()  # threads of a server count here too
        self.dense_bytes = 0
        self.payload_bytes = 0

    def moved(self, phase: Phase, group: str, *, tx: int, rx: int, known: Known) -> None:
        """Bytes crossed the transport."""
        with self._lock:
            self._bytes[Key(phase, group, "tx", known)] += tx
            self._bytes[Key(phase, group, "rx", known)] += rx

    def produced(self, payload_nbytes: int) -> None:
        """This worker encoded a contribution into so many bytes."""
        self.payload_bytes += payload_nbytes

    def stepped(self, dense_nbytes: int) -> None:
        """A training step was taken; without compression it would have sent so many gradient bytes."""
        self.dense_bytes += dense_nbytes

    def total(self, direction: Direction, *phases: Phase) -> int:
        """Bytes in one direction; all phases of training if none is named."""
        wanted = phases or TRAINING
        with self._lock:
            return sum(n for key, n in self._bytes.items() if key.direction == direction and key.phase in wanted)

    @property
    def tx_bytes(self) -> int:
        """Bytes sent for training."""
        return self.total("tx")

    @property
    def rx_bytes(self) -> int:
        """Bytes received for training."""
        return self.total("rx")

    @property
    def payload_ratio(self) -> float | None:
        """Dense gradient bytes ÷ encoded bytes; None before anything was encoded."""
        return self.dense_bytes / self.payload_bytes if self.payload_bytes else None

    def rows(self) -> list[dict[str, Any]]:
        """All rows as plain data."""
        with self._lock:
            found = list(self._bytes.items())
        return [{**vars(key), "nbytes": n} for key, n in sorted(found, key=lambda row: str(row[0]))]

    def summary(self) -> dict[str, Any]:
        """The three numbers and the rows behind them."""
        return {
            "payload_ratio": self.payload_ratio,
            "tx_bytes": self.tx_bytes,
            "rx_bytes": self.rx_bytes,
            "rows": self.rows(),
        }

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"dense_bytes": self.dense_bytes, "payload_bytes": self.payload_bytes, "rows": self.rows()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on counting from a checkpoint."""
        self.dense_bytes, self.payload_bytes = state["dense_bytes"], state["payload_bytes"]
        self._bytes = Counter(
            {Key(r["phase"], r["group"], r["direction"], r["known"]): r["nbytes"] for r in state["rows"]}
        )
