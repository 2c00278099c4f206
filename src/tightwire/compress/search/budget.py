"""What a network may cost, as a command line says it.

flops=0.5        half of the multiply-adds          flops=60M      so many
params=0.2       a fifth of the parameters          params=50k     so many
bytes=200kB      of the file                        bytes=0.1      of the parameters in four bytes each
latency=2ms      of one batch on this device        latency=0.5    half of what it takes now
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from tightwire.compress.errors import CompressError

Kind: TypeAlias = Literal["flops", "params", "bytes", "latency"]
KINDS: tuple[Kind, ...] = ("flops", "params", "bytes", "latency")
_UNITS: dict[str, dict[str, float]] = {
    "flops": {"": 1, "k": 1e3, "M": 1e6, "G": 1e9},
    "params": {"": 1, "k": 1e3, "M": 1e6, "G": 1e9},
    "bytes": {"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "KiB": 1 << 10, "MiB": 1 << 20},
    "latency": {"": 1, "s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1},
}


@dataclass(frozen=True)
class Budget:
    """A kind, and how much: a share of what it is now, or an amount (multiply-adds, parameters, bytes, nanoseconds)."""

    kind: Kind
    share: float | None = None
    amount: float | None = None

    def target(self, now: float) -> float:
        """The amount, given what the network takes now."""
        return self.share * now if self.share is not None else cast(float, self.amount)

    def __str__(self) -> str:
        """As it is written."""
        if self.share is not None:
            return f"{self.kind}={self.share:g}"
        assert self.amount is not None
        return f"latency={self.amount / 1e6:g}ms" if self.kind == "latency" else f"{self.kind}={self.amount:.0f}"


def parse_budget(text: str) -> Budget:
    """A budget from its words.

    >>> parse_budget("flops=0.5"), parse_budget("latency=2ms").amount, str(parse_budget("bytes=200kB"))
    (Budget(kind='flops', share=0.5, amount=None), 2000000.0, 'bytes=200000')
    """
    kind, _, value = text.partition("=")
    found = re.fullmatch(r"([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([A-Za-zµ]*)", value.strip())
    if kind not in KINDS or found is None or found[2] not in _UNITS[kind] or float(found[1]) <= 0:
        raise CompressError(
            f"budget {text!r} is not known; write flops=0.5, params=50k, bytes=200kB or latency=2ms: "
            "a share up to 1, or an amount"
        )
    number, unit = float(found[1]), found[2]
    if unit == "" and number <= 1:
        return Budget(kind, share=number)
    return Budget(kind, amount=number * _UNITS[kind][unit])
