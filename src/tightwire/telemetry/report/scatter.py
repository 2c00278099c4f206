"""Runs as points, quality against bytes: labels that do not cover each other, and the frontier of the best."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10
from typing import Any, NamedTuple

from tightwire.telemetry.report.axes import byte_axis
from tightwire.telemetry.report.style import Style

Place = tuple[int, float, float]  # run, bytes, quality

_WIDE, _HIGH = 500.0, 300.0  # pixels of a plot, about: enough to see which labels would meet
_LETTER, _LINE, _GAP = 6.6, 15.0, 9.0


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)

    def inside(self) -> bool:
        return self.left >= 0 and self.top >= 0 and self.right <= _WIDE and self.bottom <= _HIGH


def scatter(
    places: Sequence[Place], looks: Sequence[Style], *, worth: float, log_x: bool
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Traces and axes. ``worth`` is 1 where more quality is better and -1 where less is."""
    xs = [log10(sent) if log_x else sent for _, sent, _ in places]
    ys = [quality for _, _, quality in places]
    x_range, y_range = _range(xs, least=None if log_x else 0.0), _range(ys, least=None)
    pixels = [
        ((x - x_range[0]) / (x_range[1] - x_range[0]) * _WIDE, (y_range[1] - y) / (y_range[1] - y_range[0]) * _HIGH)
        for x, y in zip(xs, ys, strict=True)
    ]
    positions = place_labels(pixels, [looks[n].label for n, _, _ in places])
    data: list[dict[str, Any]] = []
    best = frontier(places, worth=worth)
    if len(best) > 1:
        data.append({"type": "scatter", "mode": "lines", "hoverinfo": "skip", "x": [sent for _, sent, _ in best],
                     "y": [quality for _, _, quality in best], "name": "frontier",
                     "line": {"color": "muted", "width": 1, "dash": "5px,4px"}})  # fmt: skip
    for (number, sent, quality), position in zip(places, positions, strict=True):
        look = looks[number]
        data.append({"type": "scatter", "mode": "markers+text" if position else "markers", "meta": number, "x": [sent],
                     "y": [quality], "name": escape(look.label), "text": [escape(look.label)],
                     "textposition": position or "top center",
                     "hovertemplate": "%{y:.4~g} for %{x:.3~s}B<extra>%{fullData.name}</extra>",
                     "marker": {"color": f"run-{look.color}", "symbol": look.symbol, "size": 13}})  # fmt: skip
    low, high = (10.0**x for x in x_range) if log_x else x_range
    layout = {"xaxis": byte_axis(low, high, log=log_x), "yaxis": {"range": y_range}}
    return data, layout


def frontier(places: Sequence[Place], *, worth: float) -> list[Place]:
    """The runs that no other beats in both, from the cheapest on.

    >>> frontier([(0, 100.0, 0.95), (1, 10.0, 0.94), (2, 50.0, 0.90), (3, 5.0, 0.70)], worth=1.0)
    [(3, 5.0, 0.7), (1, 10.0, 0.94), (0, 100.0, 0.95)]
    """
    found: list[Place] = []
    for place in sorted(places, key=lambda place: (place[1], -worth * place[2])):
        if not found or worth * place[2] > worth * found[-1][2]:
            found.append(place)
    return found


def place_labels(points: Sequence[tuple[float, float]], labels: Sequence[str]) -> list[str | None]:
    """Where each label goes so that it covers no other and no point; None where there is no room.

    >>> place_labels([(100.0, 100.0), (110.0, 100.0)], ["left", "right"])
    ['top center', 'bottom center']
    """
    taken = [_Box(x - 7, y - 7, x + 7, y + 7) for x, y in points]
    found: list[str | None] = []
    for own, ((x, y), label) in enumerate(zip(points, labels, strict=True)):
        others = [box for at, box in enumerate(taken) if at != own]
        for position, box in _boxes(x, y, _LETTER * len(label)).items():
            if box.inside() and not any(box.meets(other) for other in others):
                found.append(position)
                taken.append(box)
                break
        else:
            found.append(None)
    return found


def _boxes(x: float, y: float, wide: float) -> dict[str, _Box]:
    across = {"center": x - wide / 2, "right": x + _GAP, "left": x - _GAP - wide}
    down = {"top": y - _GAP - _LINE, "bottom": y + _GAP, "middle": y - _LINE / 2}
    found = {}
    for position in ("top center", "bottom center", "middle right", "middle left"):
        vertical, horizontal = position.split()
        left, top = across[horizontal], down[vertical]
        found[position] = _Box(left, top, left + wide, top + _LINE)
    return found


def _range(values: Sequence[float], *, least: float | None) -> list[float]:
    low, high = min(values), max(values)
    margin = 0.16 * (high - low) or 0.1 * abs(high) or 1.0
    return [low - margin if least is None else least, high + margin]
