"""A dot for each measured recipe, its predicted step over its measured one: docs/images/predict.svg."""

from __future__ import annotations

from math import log10
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLORS = {"loopback": "#6b7280", "1gbit": "#2563eb", "100mbit": "#dc2626"}
BAND = 0.15
SIZE, LEFT, TOP, BOTTOM = 520, 70, 40, 60
TICKS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Paper:
    """A square with two logarithmic axes of the same seconds."""

    def __init__(self, low_s: float, high_s: float) -> None:
        self.low_s, self.high_s = low_s, high_s
        self.marks = [f'<rect x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#d1d5db"/>']

    def place(self, x_s: float, y_s: float) -> tuple[float, float]:
        """Where a pair of seconds lies."""
        wide = log10(self.high_s / self.low_s)
        across, up = (SIZE * log10(s / self.low_s) / wide for s in (x_s, y_s))
        return LEFT + across, TOP + SIZE - up

    def line(self, factor: float, dash: str) -> None:
        """All places where the prediction is so many times the measurement."""
        ends = (max(self.low_s, self.low_s / factor), min(self.high_s, self.high_s / factor))
        points = " ".join("{:.1f},{:.1f}".format(*self.place(s, factor * s)) for s in ends)
        self.marks.append(f'<polyline points="{points}" fill="none" stroke="#9ca3af" stroke-dasharray="{dash}"/>')

    def text(self, x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> None:
        """Words."""
        self.marks.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{words}</text>')

    def dot(self, x: float, y: float, color: str, name: str = "") -> None:
        """A dot that tells its name."""
        style = f'r="4.5" fill="{color}" fill-opacity="0.75"'
        self.marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" {style}><title>{name}</title></circle>')

    def svg(self) -> str:
        """The picture."""
        size = f'width="{LEFT + SIZE + 20}" height="{TOP + SIZE + BOTTOM}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
        return head + '<rect width="100%" height="100%" fill="white"/>' + "".join(self.marks) + "</svg>\n"


def draw(rows: list[dict[str, Any]]) -> None:
    """The picture of all rows."""
    seconds = [row[key] for row in rows for key in ("measured_s", "predicted_s")]
    paper = Paper(0.7 * min(seconds), 1.4 * max(seconds))
    for factor, dash in ((1.0, ""), (1 - BAND, "4 4"), (1 + BAND, "4 4")):
        paper.line(factor, dash)
    for tick in (tick for tick in TICKS_S if paper.low_s < tick < paper.high_s):
        x, y = paper.place(tick, tick)
        paper.text(x, TOP + SIZE + 18, f"{tick:g}")
        paper.text(LEFT - 8, y + 4, f"{tick:g}", "end")
    for row in rows:
        color = next(color for case, color in COLORS.items() if row["case"].startswith(case))
        name = f"{row['recipe']}, {row['case']}: {100 * row['error']:+.1f}%"
        paper.dot(*paper.place(row["measured_s"], row["predicted_s"]), color, name)
    for at, (case, color) in enumerate(COLORS.items()):
        paper.dot(LEFT + 16, TOP + 16 + 18 * at, color)
        paper.text(LEFT + 26, TOP + 20 + 18 * at, case, "start")
    paper.text(LEFT + SIZE / 2, TOP + SIZE + 42, "measured step, s (dashed: 15% off)")
    middle = TOP + SIZE / 2
    paper.text(18, middle, "predicted step, s", more=f'transform="rotate(-90 18 {middle})"')
    paper.text(LEFT, 24, f"Predicted and measured: {len(rows)} recipes and links", "start", 'font-weight="bold"')
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "predict.svg").write_text(paper.svg(), encoding="utf-8")
