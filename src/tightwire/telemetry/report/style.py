"""How a run looks, everywhere on the page: its label, its colour, its dash and its symbol.

Colours follow Okabe and Ito ("Color Universal Design", 2008), which people with any kind of colour vision can tell
apart; darkened on white and lightened on black until a thin line stands out. Dash and symbol say the same, for grey
paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tightwire.telemetry.report.record import RunRecord
from tightwire.telemetry.report.units import plural

LIGHT = ("#0072b2", "#d55e00", "#00875f", "#b4528a", "#b07a00", "#2f95cf", "#30343b", "#7d7d14")
DARK = ("#4ba3e0", "#ff8a4c", "#3cc9a0", "#e8a0c8", "#f2b93b", "#8fd3ff", "#e6e8eb", "#d9d96a")

DASHES = {  # plotly's name: what SVG draws in a legend's 28 pixels
    "solid": "",
    "dash": "7 3",
    "dot": "2 2",
    "dashdot": "7 2 2 2",
    "longdash": "12 3",
    "longdashdot": "10 2 2 2",
}
SYMBOLS = {  # plotly's name: the same shape around (0, 0), 4 pixels in radius
    "circle": "M4 0A4 4 0 1 1-4 0A4 4 0 1 1 4 0Z",
    "square": "M-3.6-3.6H3.6V3.6H-3.6Z",
    "triangle-up": "M0-4.6L4.4 3.2H-4.4Z",
    "diamond": "M0-5L5 0L0 5L-5 0Z",
    "x": "M-4-2.2L-2.2-4L0-1.8L2.2-4L4-2.2L1.8 0L4 2.2L2.2 4L0 1.8L-2.2 4L-4 2.2L-1.8 0Z",
    "triangle-down": "M0 4.6L4.4-3.2H-4.4Z",
    "cross": "M-1.5-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z",
    "hourglass": "M-4-4H4L-4 4H4Z",
}
PATTERNS = ("", "/", ".", "x", "\\", "-", "+", "|")


@dataclass(frozen=True)
class Style:
    """One run's looks; ``color`` counts within the palettes."""

    label: str
    color: int
    dash: str
    symbol: str
    pattern: str

    def swatch(self) -> str:
        """The run's line and symbol as a small drawing."""
        stroke = f'stroke-dasharray="{DASHES[self.dash]}"' if DASHES[self.dash] else ""
        return (
            f'<svg class="swatch run-{self.color}" viewBox="-14 -6 28 12" width="28" height="12" aria-hidden="true">'
            f'<path d="M-14 0H14" {stroke}/><path class="symbol" d="{SYMBOLS[self.symbol]}"/></svg>'
        )


def styles(runs: Sequence[RunRecord]) -> list[Style]:
    """The looks of all runs; two runs share a colour only if there are more than eight, and then not the symbol."""
    return [look(at, label) for at, label in enumerate(labels(runs))]


def look(at: int, label: str) -> Style:
    """The looks of line number ``at``."""
    turn = at + at // len(LIGHT)
    return Style(
        label=label,
        color=at % len(LIGHT),
        dash=tuple(DASHES)[turn % len(DASHES)],
        symbol=tuple(SYMBOLS)[turn % len(SYMBOLS)],
        pattern=PATTERNS[turn % len(PATTERNS)],
    )


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """The recipe and its parameters; runs of the same recipe are told apart by what differs between them."""
    found = [run.name for run in runs]
    for name in [name for name, count in Counter(found).items() if count > 1]:
        same = [at for at, label in enumerate(found) if label == name]
        told = [_traits(runs[at]) for at in same]
        differ = [key for key in told[0] if len({traits[key] for traits in told}) > 1]
        for at, traits in zip(same, told, strict=True):
            found[at] = " · ".join([name, *(traits[key] for key in differ)])
    for name in [name for name, count in Counter(found).items() if count > 1]:
        for number, at in enumerate([at for at, label in enumerate(found) if label == name], start=1):
            found[at] = f"{name} · {runs[at].folder.name} #{number}"
    return found


def _traits(run: RunRecord) -> dict[str, str]:
    """What may tell two runs of a recipe apart, in words."""
    get = run.config.get
    return {
        "workers": plural(run.workers, "worker"),
        "model": str(get("model")),
        "data": str(get("data")),
        "shards": f"{get('shards')} shards",
        "network": str(get("lab") or get("link") or "no limit"),
        "batch": f"batch {get('batch')}",
        "lr": f"lr {get('lr')}",
        "seed": f"seed {get('seed')}",
    }
