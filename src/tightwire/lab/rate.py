"""The rate of a link as people write it: ``1gbit``, ``100mbit``, ``500kbit``, ``1gbit,5ms``.

Rates are tc's: a number and a unit of *bits* per second, in powers of 1000 (kbit, mbit, gbit, tbit) or 1024 (kibit, …).
After a comma comes the latency: what a packet takes from one host to another beyond the time its bytes take.

tc also knows kbps, mbps, gbps, and means *bytes* by them. Almost everybody who writes 100mbps means bits, so these are
refused rather than obeyed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tightwire.lab.errors import RateError

_UNITS = {"bit": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for base, suffix in ((1000, "bit"), (1024, "ibit"))
}
_TIMES_S = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6}
_NUMBER = re.compile(r"\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?|nan|inf)?\s*([a-z/%]*)\s*")
_LEAST, _MOST = 1_000, 10**13  # one 1500-byte frame in 12 s; the largest number tc is sure to carry
_MOST_LATENCY_S = 10.0
_EXAMPLES = "write it like 1gbit, 100mbit or 1gbit,5ms"


@dataclass(frozen=True)
class LinkRate:
    """What one host can send, and at the same time receive, per second; and how far away the others are.

    >>> LinkRate(10**9).seconds(125_000_000), str(LinkRate(1_500_000, 0.005))
    (1.0, '1500kbit,5ms')
    """

    bits_per_second: int
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if not _LEAST <= self.bits_per_second <= _MOST:
            raise RateError(
                f"a link of {self.bits_per_second:g} bit/s: rates go from 1kbit to 10tbit per second; {_EXAMPLES}"
            )
        if not 0 <= self.latency_s <= _MOST_LATENCY_S:
            raise RateError(f"a latency of {self.latency_s:g} s: latencies go from 0 to {_MOST_LATENCY_S:g} s")

    def seconds(self, nbytes: float) -> float:
        """What so many bytes take to leave, framing not counted."""
        return nbytes * 8 / self.bits_per_second

    def __str__(self) -> str:
        """As `parse_rate` reads it."""
        scale = max(s for u, s in _UNITS.items() if not u.endswith("ibit") and self.bits_per_second % s == 0)
        unit = next(u for u, s in _UNITS.items() if s == scale)
        text = f"{self.bits_per_second // scale}{unit}"
        return f"{text},{self.latency_s * 1000:g}ms" if self.latency_s else text


def parse_rate(text: str) -> LinkRate:
    """Read a rate, or a rate and a latency.

    >>> parse_rate("100mbit"), parse_rate("1.5gbit,5ms")
    (LinkRate(bits_per_second=100000000, latency_s=0.0), LinkRate(bits_per_second=1500000000, latency_s=0.005))
    """
    rate, comma, latency = text.lower().partition(",")
    number, unit = _split(rate, text)
    if unit in ("bps", "kbps", "mbps", "gbps", "tbps") or "/" in unit:
        bits = unit[:-2].removesuffix("b") + "bit"
        raise RateError(
            f"{text!r}: {unit} is ambiguous, since tc means bytes by it; write {number:g}{bits} for bits, "
            f"{8 * number:g}{bits} for bytes"
        )
    if unit not in _UNITS:
        what = f"the unit {unit!r} is none of" if unit else "the unit is missing; there are"
        raise RateError(f"{text!r} is not the rate of a link: {what} {', '.join(_UNITS)}; {_EXAMPLES}")
    if not comma:
        return LinkRate(round(number * _UNITS[unit]))
    delay, delay_unit = _split(latency, text)
    if delay_unit not in _TIMES_S:
        raise RateError(f"{text!r}: after the comma stands a latency in s, ms or us; {_EXAMPLES}")
    return LinkRate(round(number * _UNITS[unit]), delay * _TIMES_S[delay_unit])


def _split(part: str, whole: str) -> tuple[float, str]:
    """The number and the unit."""
    found = _NUMBER.fullmatch(part)
    try:
        number = float(found[1] or "") if found else math.nan
    except ValueError:
        number = math.nan
    if found is None or not math.isfinite(number):
        raise RateError(
            f"{whole!r} is not the rate of a link: {part.strip()!r} has no number to begin with; {_EXAMPLES}"
        )
    if number < 0:
        raise RateError(f"{whole!r}: {part.strip()!r} is negative; {_EXAMPLES}")
    return number, found[2]
