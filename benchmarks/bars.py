"""Bars as SVG text, one a layer, coloured by kind: AMC's figure 14."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.chart import BOTTOM, GRID, HEIGHT, INK, LEFT, RIGHT, SOFT, TOP, WIDTH, framed, words


@dataclass(frozen=True)
class Bar:
    """One bar: its height between 0 and 1, its kind, and where its least and largest values are."""

    name: str
    share: float
    kind: str
    low: float
    high: float


@dataclass(frozen=True)
class Bars:
    """Everything that is drawn; ``colors`` by kind, ``levels`` a dashed line for each kind."""

    title: str
    subtitle: str
    x_label: str
    y_label: str
    bars: Sequence[Bar]
    colors: dict[str, str]
    levels: dict[str, float]

    def svg(self) -> str:
        """The drawing."""
        bars = (part for place, bar in enumerate(self.bars) for part in self._bar(place, bar))
        return framed(self.title, self.subtitle, [*self._legend(), *self._axes(), *bars, *self._levels()])

    def _y(self, share: float) -> float:
        return HEIGHT - BOTTOM - share / self._top() * (HEIGHT - TOP - BOTTOM)

    def _top(self) -> float:
        return min(1.0, -(-max(bar.high for bar in self.bars) * 10 // 1) / 10)

    def _axes(self) -> Iterator[str]:
        for tick in range(0, round(10 * self._top()) + 1, 2 if self._top() > 0.5 else 1):
            y = self._y(tick / 10)
            yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>'
            yield words(LEFT - 10, y + 4, f"{10 * tick}%", anchor="end")
        yield words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, self.x_label, anchor="middle")
        yield words(18, (TOP + HEIGHT - BOTTOM) / 2, self.y_label, anchor="middle", turned=True)

    def _bar(self, place: int, bar: Bar) -> Iterator[str]:
        each = (WIDTH - LEFT - RIGHT) / len(self.bars)
        x, y = LEFT + each * place, self._y(bar.share)
        yield (
            f'<rect x="{x + 0.12 * each:.1f}" y="{y:.1f}" width="{0.76 * each:.1f}" '
            f'height="{HEIGHT - BOTTOM - y:.1f}" fill="{self.colors[bar.kind]}"><title>{escape(bar.name)}: '
            f"{bar.share:.1%}</title></rect>"
        )
        middle = x + each / 2
        yield f'<path d="M{middle:.1f} {self._y(bar.low):.1f}V{self._y(bar.high):.1f}" stroke="{INK}" opacity="0.6"/>'
        if place % 5 == 4 or place == 0:
            yield words(middle, HEIGHT - BOTTOM + 18, str(place + 1), anchor="middle", size=11)

    def _levels(self) -> Iterator[str]:
        for kind, level in self.levels.items():
            path = f"M{LEFT} {self._y(level):.1f}H{WIDTH - RIGHT}"
            yield f'<path d="{path}" stroke="{self.colors[kind]}" stroke-width="2" stroke-dasharray="6 4"/>'

    def _legend(self) -> Iterator[str]:
        x = float(LEFT)
        for kind, color in self.colors.items():
            mean = f", mean {self.levels[kind]:.1%}" if kind in self.levels else ""
            yield f'<rect x="{x:.1f}" y="61" width="14" height="14" fill="{color}"/>'
            yield words(x + 21, 72, kind + mean, color=SOFT)
            x += 21 + 7.2 * len(kind + mean) + 22
