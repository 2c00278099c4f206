"""A line chart as SVG text: a logarithmic x-axis with a tick at every measured value, a legend, no dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log
from typing import Literal

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 92, 60
INK, SOFT, GRID = "#111827", "#4b5563", "#e5e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Series:
    """One line: points (x, y) in order of x."""

    name: str
    points: tuple[tuple[float, float], ...]
    color: str
    dash: str = ""
    marker: Literal["disc", "ring", "none"] = "disc"


@dataclass(frozen=True)
class Chart:
    """Everything that is drawn."""

    title: str
    subtitle: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]

    def svg(self) -> str:
        """The drawing."""
        lines = (part for series in self.series for part in self._line(series))
        return framed(self.title, self.subtitle, [*self._legend(), *self._axes(), *lines])

    # ── where things are ──────────────────────────────────────────────────────────────────────────────────────────

    def _xs(self) -> list[float]:
        return sorted({x for series in self.series for x, _ in series.points})

    def _steps(self) -> list[float]:
        """Ticks of the y-axis: round numbers that enclose all values."""
        values = [y for series in self.series for _, y in series.points]
        low, high = min(values), max(values)
        step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if (high - low) / s <= 6)
        return [step * k for k in range(floor(low / step), ceil(high / step) + 1)]

    def _x(self, x: float) -> float:
        xs = self._xs()
        share = log(x / xs[0]) / log(xs[-1] / xs[0]) if xs[-1] > xs[0] else 0.5
        return LEFT + 24 + share * (WIDTH - LEFT - RIGHT - 48)

    def _y(self, y: float) -> float:
        ticks = self._steps()
        share = (y - ticks[0]) / (ticks[-1] - ticks[0]) if ticks[-1] > ticks[0] else 0.5
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    # ── what is drawn ─────────────────────────────────────────────────────────────────────────────────────────────

    def _axes(self) -> Iterator[str]:
        ticks = self._steps()
        for tick in ticks:
            y = self._y(tick)
            yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>'
            yield words(LEFT - 10, y + 4, f"{tick:g}", anchor="end")
        floor_y = HEIGHT - BOTTOM
        yield f'<path d="M{LEFT} {floor_y}H{WIDTH - RIGHT}" stroke="{SOFT}"/>'
        for x in self._xs():
            yield f'<path d="M{self._x(x):.1f} {floor_y}v5" stroke="{SOFT}"/>'
            yield words(self._x(x), floor_y + 20, f"{x:g}", anchor="middle")
        yield words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, self.x_label, anchor="middle")
        middle = (TOP + floor_y) / 2
        yield words(18, middle, self.y_label, anchor="middle", turned=True)

    def _line(self, series: Series) -> Iterator[str]:
        places = [(self._x(x), self._y(y)) for x, y in series.points]
        dash = f' stroke-dasharray="{series.dash}"' if series.dash else ""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        yield f'<path d="M{path}" fill="none" stroke="{series.color}" stroke-width="2"{dash}/>'
        for x, y in places if series.marker != "none" else ():
            yield _marker(x, y, series)

    def _legend(self) -> Iterator[str]:
        x = float(LEFT)
        for series in self.series:
            dash = f' stroke-dasharray="{series.dash}"' if series.dash else ""
            yield f'<path d="M{x:.1f} 68h26" stroke="{series.color}" stroke-width="2"{dash}/>'
            if series.marker != "none":
                yield _marker(x + 13, 68, series)
            yield words(x + 33, 72, series.name)
            x += 33 + 7.2 * len(series.name) + 18


def _marker(x: float, y: float, series: Series) -> str:
    inside = series.color if series.marker == "disc" else "#ffffff"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{inside}" stroke="{series.color}" stroke-width="2"/>'


def framed(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """A drawing under its title."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="{FONT}" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        words(LEFT, 26, title, size=16, weight=600, color=INK),
        words(LEFT, 46, subtitle),
        *parts,
        "</svg>\n",
    ])  # fmt: skip


def words(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, weight: int = 400, color: str = SOFT,
    turned: bool = False,
) -> str:  # fmt: skip
    """A piece of text."""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{color}"{turn}>{escape(text)}</text>'
    )
