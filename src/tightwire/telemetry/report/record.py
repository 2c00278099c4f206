"""A run as the report knows it: what was asked, what happened step by step, and the figures at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from tightwire.algebra.errors import TightwireError


class ReportError(TightwireError, ValueError):
    """A report that cannot be written: names the folder or file and what to do."""


@dataclass(frozen=True)
class Note:
    """Something a person should know, and which workers said it."""

    steps: int
    ranks: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Curve:
    """A run step by step; all fields have the same length, and all but ``loss`` never decrease."""

    steps: tuple[int, ...]  # steps taken
    seconds: tuple[float, ...]  # when the last worker had taken them
    tx_bytes: tuple[float, ...]  # sent until then, mean over workers
    rx_bytes: tuple[float, ...]
    loss: tuple[float | None, ...]  # mean over workers; None where none had a finite one


@dataclass(frozen=True)
class Figures:
    """The figures of a run; None where they are not known (yet). Bytes are means over workers."""

    seconds: float | None = None
    samples_per_second: float | None = None
    accuracy: float | None = None
    perplexity: float | None = None
    tx_bytes: float | None = None
    rx_bytes: float | None = None
    measured_tx_bytes: float | None = None
    measured_rx_bytes: float | None = None
    payload_ratio: float | None = None
    staleness_mean: float | None = None
    staleness_max: float | None = None
    staleness_counts: Mapping[int, float] = field(default_factory=dict)
    restarts: int = 0
    link: str | None = None

    @property
    def measured_over_ledger(self) -> float | None:
        """What the kernel counted ÷ what we counted, both directions together; None outside the lab."""
        counted = (self.tx_bytes, self.rx_bytes, self.measured_tx_bytes, self.measured_rx_bytes)
        known = [value for value in counted if value is not None]
        if len(known) < len(counted) or known[0] + known[1] == 0:
            return None
        return (known[2] + known[3]) / (known[0] + known[1])


@dataclass(frozen=True)
class RunRecord:
    """One run."""

    folder: Path
    config: Mapping[str, Any]
    figures: Figures
    curve: Curve
    notes: tuple[Note, ...]
    composition: str  # the recipe as its worker understood it, every part spelled out
    state: Literal["done", "stopped", "failed", "unfinished"]
    when: datetime  # when something was last written

    @property
    def name(self) -> str:
        """The recipe and its parameters, as one types them."""
        params = self.config.get("params") or {}
        return ":".join([str(self.config["recipe"]), *(f"{key}={value}" for key, value in params.items())])

    @property
    def workers(self) -> int:
        """How many took part."""
        return int(self.config["workers"])
