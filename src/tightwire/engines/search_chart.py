"""Small drawings as SVG text, no scripts: points, lines and bars on two axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 760, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 22, 14, 40


@dataclass(frozen=True)
class Axis:
    """A range, its title, and how its numbers are written."""

    low: float
    high: float
    title: str
    show: Callable[[float], str]

    def ticks(self) -> list[float]:
        """Round numbers within the range, about five."""
        step = 10 ** floor(log10(max(self.high - self.low, 1e-12) / 4))
        step *= min((m for m in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (step * m) <= 6), default=10)
        first = ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, floor(self.high / step + 1e-9) + 1)]


def percents(low: float, high: float, title: str) -> Axis:
    """An axis of shares as percents, with the digits that tell its ticks apart.

    >>> [axis.show(tick) for axis in (percents(0.995, 0.9975, ""),) for tick in axis.ticks()][:3]
    ['99.50%', '99.55%', '99.60%']
    >>> [axis.show(tick) for axis in (percents(0, 1, ""),) for tick in axis.ticks()][:3]
    ['0%', '20%', '40%']
    """
    ticks = Axis(low, high, title, str).ticks()
    digits = next((d for d in range(6) if all(abs(round(tick, d + 2) - tick) < 1e-9 for tick in ticks)), 6)
    return Axis(low, high, title, lambda share: f"{share:.{digits}%}")


@dataclass(frozen=True)
class Plot:
    """Two axes and what is drawn between them."""

    x: Axis
    y: Axis
    width: int = WIDTH
    height: int = HEIGHT

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point on paper."""
        wide, tall = self.width - _LEFT - _RIGHT, self.height - _TOP - _BOTTOM
        u = (x - self.x.low) / ((self.x.high - self.x.low) or 1.0)
        v = (y - self.y.low) / ((self.y.high - self.y.low) or 1.0)
        return round(_LEFT + wide * min(max(u, 0.0), 1.0), 1), round(_TOP + tall * (1 - min(max(v, 0.0), 1.0)), 1)

    def svg(self, marks: Sequence[str], label: str, *, names: Sequence[tuple[float, str]] = ()) -> str:
        """The whole drawing; ``names`` stand below the x axis instead of numbers."""
        low, high = self.at(self.x.low, self.y.low), self.at(self.x.high, self.y.high)
        parts = [f'<path class="axis" d="M{low[0]} {high[1]}V{low[1]}H{high[0]}"/>']
        for tick in self.y.ticks():
            y = self.at(self.x.low, tick)[1]
            parts.append(f'<path class="grid" d="M{low[0]} {y}H{high[0]}"/>')
            parts.append(f'<text class="end" x="{low[0] - 6}" y="{y + 4}">{escape(self.y.show(tick))}</text>')
        for place, text in names or [(tick, self.x.show(tick)) for tick in self.x.ticks()]:
            x = self.at(place, self.y.low)[0]
            parts.append(f'<text class="mid" x="{x}" y="{low[1] + 16}">{escape(text)}</text>')
        parts.append(
            f'<text class="mid" x="{(low[0] + high[0]) / 2}" y="{self.height - 6}">{escape(self.x.title)}</text>'
        )
        parts.append(f'<text class="mid" transform="translate(13 {(low[1] + high[1]) / 2}) rotate(-90)">'
                     f"{escape(self.y.title)}</text>")  # fmt: skip
        return (
            f'<div class="scroll"><svg class="plot" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(label)}">{"".join(parts)}{"".join(marks)}</svg></div>'
        )

    def line(self, points: Sequence[tuple[float, float]], style: str) -> str:
        """A line through points."""
        path = "L".join("{} {}".format(*self.at(x, y)) for x, y in points)
        return f'<path class="line {style}" d="M{path}"/>' if points else ""

    def dots(self, points: Sequence[tuple[float, float]], style: str, *, radius: float = 2.0) -> str:
        """A dot at each point."""
        return "".join(
            '<circle class="dot {}" cx="{}" cy="{}" r="{}"/>'.format(style, *self.at(x, y), radius) for x, y in points
        )

    def bar(self, x: float, y: float, width: float, style: str, title: str) -> str:
        """A bar from the axis up to y, as wide as ``width`` of the x axis."""
        left, top = self.at(x - width / 2, y)
        right, bottom = self.at(x + width / 2, self.y.low)
        wide, tall = max(round(right - left, 1), 1), round(bottom - top, 1)
        box = f'x="{left}" y="{top}" width="{wide}" height="{tall}"'
        return f'<rect class="{style}" {box}><title>{escape(title)}</title></rect>'
