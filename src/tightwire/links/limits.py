"""How much one caller may ask of a server, and all callers together.

A caller is an open connection. What it may not do is refused with a reason, before memory is taken for it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds; whoever is refused is told which one."""

    message_nbytes: int = 8 << 30  # one message, as announced
    client_nbytes: int = 16 << 30  # all messages that one connection has under way
    client_streams: int = 64  # calls that one connection has open
    connections: int = 1024
    unproven: int = 64  # connections that have not shown a token yet
    unproven_s: float = 10.0  # how long one may take to show it
    unproven_nbytes: int = 1 << 20  # how much it may send until then
