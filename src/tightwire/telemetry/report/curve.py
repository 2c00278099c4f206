"""From the steps of all workers to one line on paper: merged, smoothed, thinned out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import isfinite

from tightwire.telemetry.report.events import Point, Track
from tightwire.telemetry.report.record import Curve

SMOOTH = 20  # the smoothing window is this part of a run
POINTS = 1000  # at most so many points a line


def merge(tracks: Sequence[Track]) -> Curve:
    """One curve of all workers.

    The loss and the bytes of a step are means over the workers that took it; its time is that of the last of them, so
    an asynchronous run is not shown faster than its slowest worker. A world that shrank must not turn back the clock:
    time and bytes are running maxima.
    """
    taken: dict[int, list[Point]] = {}
    for track in tracks:
        for point in track.points:
            taken.setdefault(point.steps, []).append(point)
    steps = sorted(taken)
    return Curve(
        steps=tuple(steps),
        seconds=tuple(accumulate((max(p.seconds for p in taken[s]) for s in steps), max)),
        tx_bytes=tuple(accumulate((_mean([p.tx_bytes for p in taken[s]]) for s in steps), max)),
        rx_bytes=tuple(accumulate((_mean([p.rx_bytes for p in taken[s]]) for s in steps), max)),
        loss=tuple(_loss(taken[s]) for s in steps),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _loss(points: Sequence[Point]) -> float | None:
    found = [point.loss for point in points if point.loss is not None and isfinite(point.loss)]
    return _mean(found) if found else None


def smooth(values: Sequence[float | None], *, part: int = SMOOTH) -> list[float | None]:
    """A centred moving mean over ``1/part`` of the values, unknown ones left out.

    The window is narrower at the beginning, where a loss falls fast and a wide one would hide where it came from.

    >>> smooth([4.0, 2.0, None, 2.0, 4.0, 3.0], part=2)
    [4.0, 3.0, 2.0, 3.0, 3.0, 3.5]
    """
    half = len(values) // part // 2
    sums = list(accumulate((value or 0.0 for value in values), initial=0.0))
    counts = list(accumulate((value is not None for value in values), initial=0))
    found: list[float | None] = []
    for at in range(len(values)):
        low, high = max(at - half, 0), min(at + min(half, at) + 1, len(values))
        count = counts[high] - counts[low]
        found.append((sums[high] - sums[low]) / count if count else None)
    return found


def thin(values: Sequence[float | None], *, points: int = POINTS) -> list[int]:
    """The indices to draw: all of them if they are few, else the least and the greatest of each stretch, and both ends.

    >>> thin([3, 1, 4, 1, 5, 9, 2, 6], points=6)
    [0, 1, 2, 5, 6, 7]
    """
    if len(values) <= points:
        return list(range(len(values)))
    stretches = points // 2 - 1
    kept = {0, len(values) - 1}
    for k in range(stretches):
        stretch = range(k * len(values) // stretches, (k + 1) * len(values) // stretches)
        known = [(value, at) for at in stretch if (value := values[at]) is not None]
        if known:
            kept |= {min(known)[1], max(known)[1]}
    return sorted(kept)
