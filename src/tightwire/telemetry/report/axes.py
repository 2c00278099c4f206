"""Axes that fit what is drawn on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import Any

from tightwire.telemetry.report.curve import smooth
from tightwire.telemetry.report.record import RunRecord
from tightwire.telemetry.report.units import show_bytes, show_number

LOG_FROM = 30  # an axis whose runs differ by more than this factor is logarithmic
_HEAD = 100  # a logarithmic axis leaves out the first hundredth of the shortest run, which would fill half of it


def differ(ends: Sequence[float]) -> bool:
    """Whether an axis that ends there should be logarithmic.

    >>> differ([1.0, 30.0]), differ([1.0, 31.0]), differ([])
    (False, True, False)
    """
    return bool(ends) and max(ends) > LOG_FROM * min(ends)


def run_axis(kind: str, ends: Sequence[float]) -> dict[str, Any]:
    """Steps, seconds or bytes since a run began, for runs that end there."""
    title = {"steps": "steps", "seconds": "seconds since the workers joined", "sent": "bytes sent per worker"}[kind]
    axis: dict[str, Any] = {"title": {"text": title}, "rangemode": "tozero"}
    if differ(ends):
        return axis | log_axis(min(ends) / _HEAD, 1.15 * max(ends), show_bytes if kind == "sent" else show_number)
    return axis | (BYTES if kind == "sent" else {})


BYTES = {"type": "linear", "tickformat": "~s", "ticksuffix": "B"}


def byte_axis(low: float, high: float, *, log: bool) -> dict[str, Any]:
    """Bytes from ``low`` to ``high``."""
    return log_axis(low, high, show_bytes) if log else BYTES | {"range": [low, high]}


def log_axis(low: float, high: float, show: Callable[[float], str]) -> dict[str, Any]:
    """A logarithmic axis with ticks as many as a phone has room for.

    >>> log_axis(200, 30_000, show_bytes)["ticktext"]
    ['500B', '1kB', '5kB', '10kB']
    """
    decades = log10(high / low)
    digits = (1, 2, 5) if decades < 1.2 else (1, 5) if decades < 2.4 else (1,)
    every = [digit * 10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1) for digit in digits]
    ticks = [tick for tick in every if low <= tick <= high]
    texts = [show(tick).replace(" ", "") for tick in ticks]
    return {"type": "log", "range": [log10(low), log10(high)], "tickvals": ticks, "ticktext": texts}


def loss_axis(shown: Sequence[RunRecord], runs: Sequence[RunRecord]) -> dict[str, Any]:
    """An axis that fits the smoothed lines shown, so that one wild step does not flatten all others.

    ``linear`` and ``log`` are its ranges in either form, for the reader to choose; the first choice suits all runs.
    """
    axis: dict[str, Any] = {"title": {"text": "loss"}, "type": "linear"}
    seen, every = _smoothed(shown), _smoothed(runs)
    if not seen:
        return axis
    low, high = min(seen), max(seen)
    margin = 0.06 * (high - low) or 0.5
    axis["range"] = axis["linear"] = [low - margin if low < 0 else max(low - margin, 0), high + margin]
    if min(every) > 0:
        margin = 0.06 * log10(high / low) or 0.5
        axis["log"] = [log10(low) - margin, log10(high) + margin]
        if differ(every):
            axis |= {"type": "log", "range": axis["log"]}
    return axis


def _smoothed(runs: Sequence[RunRecord]) -> list[float]:
    return [value for run in runs for value in smooth(run.curve.loss) if value is not None]
