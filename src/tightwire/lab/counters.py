"""The kernel's own count of what crossed a host's interface: the bytes that `measured_*` reports.

Read from ``/proc/…/net/dev``, which shows the namespace of whoever reads it (``/sys/class/net`` shows the machine's,
whoever reads). A worker reads its own host's in some 50 µs, so a run can bracket what it measures by barriers.

The counters include what TCP and IP add: headers, acknowledgements, retransmissions. An interface counts a segment of
up to 64 KiB as one packet with one header, so bulk traffic shows 1.002 to 1.02 of its payload; small messages show
more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tightwire.lab.errors import LabError
from tightwire.lab.tools import inside

INTERFACE = "tw0"
"""What every host calls its one interface."""

LAB_VARIABLE = "TIGHTWIRE_LAB"
"""Set in every process of a lab, to the rate of its links."""


@dataclass(frozen=True)
class Counters:
    """Bytes and packets since the interface was made, or between two moments.

    >>> Counters(10, 1, 30, 3) - Counters(4, 1, 10, 2)
    Counters(rx_bytes=6, rx_packets=0, tx_bytes=20, tx_packets=1)
    """

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int

    def __sub__(self, earlier: Counters) -> Counters:
        """What was counted in between."""
        return Counters(
            self.rx_bytes - earlier.rx_bytes,
            self.rx_packets - earlier.rx_packets,
            self.tx_bytes - earlier.tx_bytes,
            self.tx_packets - earlier.tx_packets,
        )


def own_counters() -> Counters | None:
    """The counters of the host this process lives in; None outside a lab."""
    if LAB_VARIABLE not in os.environ:
        return None
    return _read()


def counters_in(namespace: str) -> Counters:
    """The counters of the host in that namespace, read from outside."""
    found = inside(namespace, _read)
    if found is None:
        raise LabError(f"namespace {namespace} has no interface {INTERFACE}; was it changed by hand?")
    return found


def _read() -> Counters | None:
    """The calling thread's view."""
    return parse(Path("/proc/thread-self/net/dev").read_text(), INTERFACE)


def parse(table: str, interface: str) -> Counters | None:
    r"""One interface's row of ``/proc/net/dev``; None if it has none.

    >>> parse("head\nhead\n tw0: 10 1 0 0 0 0 0 0 30 3 0 0 0 0 0 0\n", "tw0")
    Counters(rx_bytes=10, rx_packets=1, tx_bytes=30, tx_packets=3)
    """
    for line in table.splitlines():
        name, colon, numbers = line.partition(":")
        if colon and name.strip() == interface:
            rx_bytes, rx_packets, *_, tx_bytes, tx_packets, _, _, _, _, _, _ = (int(n) for n in numbers.split())
            return Counters(rx_bytes, rx_packets, tx_bytes, tx_packets)
    return None
