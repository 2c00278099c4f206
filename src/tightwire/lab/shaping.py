"""From a rate to the arguments of `tc tbf`: how large a burst, how long a queue, how large a segment.

A token bucket fills at the link's rate up to ``burst`` bytes; a packet leaves when the bucket holds its bytes. TCP
hands over segments of up to 64 KiB (segmentation offload), which the bucket must hold whole: otherwise the kernel cuts
them into frames in software, and 100 MB among four hosts at 1 Gbit/s took 3.4 s on two cores instead of 1.26 s. Even
when they pass whole, the bucket is charged for the header of every frame, so times are those of a real wire.

A burst is also what a host may send for nothing after a pause, so it should be small: 1 MB between four hosts at
1 Gbit/s took 0.9 of its time with a burst of 256 kB, 0.97 to 1.02 with 128 kB. Three rules follow (b = bytes a second):

    segment  = b · 1 ms, from 8 to 64 KiB              small on slow links, where 64 KiB would be 5 ms at once
    burst    = segment and its headers + b · late      the kernel's timers and our processes come a little late
    queue    = burst + b · 50 ms, from 1 to 64 MB      a switch's buffer; several may send to one

``late`` is 0.5 ms up to 1 Gbit/s and grows to 2 ms at 4: the faster the link, the busier the machine that plays it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tightwire.lab.rate import LinkRate

ETHERNET_NBYTES = 14
HEADER_NBYTES = ETHERNET_NBYTES + 20 + 32  # Ethernet, IPv4, TCP with time stamps: what a frame carries besides payload
_SEGMENT_S, _LEAST_SEGMENT, _MOST_SEGMENT = 1e-3, 8 << 10, 64 << 10
_LATE_S, _LATE_GROWS = 0.5e-3, 4.0
_QUEUE_S, _LEAST_QUEUE, _MOST_QUEUE = 50e-3, 10**6, 64 * 10**6


@dataclass(frozen=True)
class Shape:
    """What tc is told, in bytes and seconds."""

    rate: LinkRate
    segment_nbytes: int
    burst_nbytes: int
    queue_nbytes: int

    def tbf(self) -> str:
        """The token bucket, for the end of a ``tc qdisc add`` line."""
        return f"tbf rate {self.rate.bits_per_second}bit burst {self.burst_nbytes} limit {self.queue_nbytes}"

    def netem(self) -> str:
        """The latency, likewise; room for twice the packets that can be under way."""
        under_way = self.rate.bits_per_second / 8 * self.rate.latency_s / 1500
        return f"netem delay {round(self.rate.latency_s * 1e6)}us limit {1000 + 2 * math.ceil(under_way)}"


def shape(rate: LinkRate, mtu: int) -> Shape:
    """How to shape a link of this rate.

    >>> shape(LinkRate(10**9), mtu=1500).tbf()
    'tbf rate 1000000000bit burst 131072 limit 6381072'
    """
    per_second = rate.bits_per_second / 8
    segment = min(max(per_second * _SEGMENT_S, _LEAST_SEGMENT, mtu), _MOST_SEGMENT)
    frames = math.ceil(segment / (mtu + ETHERNET_NBYTES - HEADER_NBYTES))
    late_s = _LATE_S * min(max(rate.bits_per_second / 1e9, 1.0), _LATE_GROWS)
    burst = segment + frames * HEADER_NBYTES + per_second * late_s
    queue = burst + min(max(per_second * _QUEUE_S, _LEAST_QUEUE), _MOST_QUEUE)
    return Shape(rate, math.ceil(segment), math.ceil(burst), math.ceil(queue))
