"""What plotly draws, as plain data: testable here, themed and drawn by ``page.js``.

Long columns of numbers stand on the page once. A trace names them (``"x": "0.steps"``), and colours by their place in
the palette (``"run-0"``); ``page.js`` puts the values in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tightwire.telemetry.report.axes import BYTES, differ, loss_axis, run_axis
from tightwire.telemetry.report.curve import smooth, thin
from tightwire.telemetry.report.record import RunRecord
from tightwire.telemetry.report.scatter import scatter
from tightwire.telemetry.report.style import Style
from tightwire.telemetry.report.units import show_bytes

MARKS = 9  # symbols along a line
_HOVER = (
    "loss %{y:.4g}<br>%{customdata[0]:,} steps · %{customdata[1]:.3~s}s · %{customdata[2]:.3~s}B"
    "<extra>%{fullData.name}</extra>"
)


@dataclass(frozen=True)
class Figure:
    """One picture: what plotly takes, and what stands around it."""

    key: str
    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        """For ``page.js``."""
        return {"key": self.key, "data": self.data, "layout": self.layout}


def lines(runs: Sequence[RunRecord]) -> dict[str, dict[str, list[float | None]]]:
    """The columns of numbers that the figures of the loss share, by run."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for number, run in enumerate(runs):
        curve = run.curve
        kept = thin(curve.loss)
        even = smooth(curve.loss)
        found[str(number)] = {
            "steps": [curve.steps[at] for at in kept],
            "seconds": [_short(curve.seconds[at]) for at in kept],
            "sent": [_short(curve.tx_bytes[at]) for at in kept],
            "loss": [_short(curve.loss[at]) for at in kept],
            "smooth": [_short(even[at]) for at in kept],
        }
    return found


def _short(value: float | None) -> float | None:
    """Five digits: more cannot be seen, and would only make the page heavier."""
    if value is None:
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short


def figures(runs: Sequence[RunRecord], looks: Sequence[Style]) -> list[Figure]:
    """All figures somebody has data for."""
    every = [
        losses("steps", "Loss against steps", runs, looks),
        losses("seconds", "Loss against time", runs, looks),
        losses("sent", "Loss against traffic", runs, looks),
        quality("accuracy", "Accuracy against traffic", runs, looks),
        quality("perplexity", "Perplexity against traffic", runs, looks),
        traffic(runs, looks),
        staleness(runs, looks),
    ]
    return [figure for figure in every if figure is not None]


def losses(key: str, title: str, runs: Sequence[RunRecord], looks: Sequence[Style]) -> Figure:
    """The loss of every run, smoothed over a faint raw line. A run that sends nothing has no place on the byte axis."""
    ends = {number: _end(run, key) for number, run in enumerate(runs)}
    shown = [number for number, end in ends.items() if end > 0]
    absent = [looks[number].label for number, end in ends.items() if end <= 0]
    data = []
    for number in shown:
        look, common = looks[number], {"x": f"{number}.{key}", "type": "scatter", "meta": number}
        data.append({**common, "y": f"{number}.loss", "mode": "lines", "hoverinfo": "skip", "opacity": 0.18,
                     "name": escape(look.label), "line": {"color": f"run-{look.color}", "width": 1}})  # fmt: skip
    for number in shown:
        look, common = looks[number], {"x": f"{number}.{key}", "type": "scatter", "meta": number}
        data.append({**common, "y": f"{number}.smooth", "mode": "lines+markers", "name": escape(look.label),
                     "customdata": [f"{number}.steps", f"{number}.seconds", f"{number}.sent"], "hovertemplate": _HOVER,
                     "line": {"color": f"run-{look.color}", "width": 2.2, "dash": look.dash},
                     "marker": {"color": f"run-{look.color}", "symbol": look.symbol, "size": 8, "maxdisplayed": MARKS},
                     })  # fmt: skip
    caption = f"Not shown, for nothing was sent: {', '.join(absent)}." if absent else ""
    layout = {
        "xaxis": run_axis(key, [ends[number] for number in shown]),
        "yaxis": loss_axis([runs[number] for number in shown], runs),
        "meta": "loss",
    }
    return Figure(key, title, caption, data, layout)


def _end(run: RunRecord, key: str) -> float:
    return {"steps": run.curve.steps, "seconds": run.curve.seconds, "sent": run.curve.tx_bytes}[key][-1]


def quality(figure: str, title: str, runs: Sequence[RunRecord], looks: Sequence[Style]) -> Figure | None:
    """How good the answer is against what it cost; None if no run has both."""
    worth = {"accuracy": 1.0, "perplexity": -1.0}[figure]
    known = [(n, run.figures.tx_bytes, getattr(run.figures, figure)) for n, run in enumerate(runs)]
    places = [(n, sent, value) for n, sent, value in known if sent and value is not None]
    if not places:
        return None
    data, layout = scatter(places, looks, worth=worth, log_x=differ([sent for _, sent, _ in places]))
    layout["yaxis"] |= {"title": {"text": figure}} | ({"tickformat": ".1~%"} if figure == "accuracy" else {})
    layout["xaxis"] |= {"title": {"text": "bytes sent per worker"}}
    caption = "The dashed line joins the runs that no other beats in both." if len(data) > len(places) else ""
    return Figure(f"{figure}-sent", title, caption, data, layout)


def traffic(runs: Sequence[RunRecord], looks: Sequence[Style]) -> Figure | None:
    """Bytes sent and received. A bar begins at zero, on a linear axis: its length is what it says."""
    rows = [n for n, run in enumerate(runs) if run.figures.tx_bytes is not None]
    if not rows:
        return None
    data: list[dict[str, Any]] = []
    for way, shape, name in (("rx_bytes", "/", "received"), ("tx_bytes", "", "sent")):
        values = [getattr(runs[n].figures, way) or 0 for n in rows]
        pattern = {"shape": shape, "fillmode": "replace", "size": 5, "solidity": 0.35}
        data.append({"type": "bar", "orientation": "h", "name": name, "x": values, "y": rows,
                     "text": [show_bytes(value) for value in values], "textposition": "outside", "cliponaxis": False,
                     "hovertemplate": "%{text} " + name + " per worker<extra></extra>",
                     "marker": {"color": [f"run-{looks[n].color}" for n in rows], "pattern": pattern}})  # fmt: skip
    ticks = {"tickvals": rows, "ticktext": [escape(_cut(looks[n].label)) for n in rows]}
    largest = max(max(trace["x"]) for trace in data)
    layout = {
        "barmode": "group",
        "bargap": 0.28,
        "height": 110 + 46 * len(rows),
        "xaxis": {**BYTES, "title": {"text": "bytes per worker"}, "range": [0, 1.18 * largest or 1]},
        "narrow": {"xaxis": {"range": [0, 1.6 * largest or 1]}},  # room for the figures beside the bars
        "yaxis": {**ticks, "autorange": "reversed", "automargin": True, "showgrid": False},
    }  # fmt: skip
    return Figure("traffic", "Bytes per worker", "Solid: sent. Hatched: received.", data, layout)


def staleness(runs: Sequence[RunRecord], looks: Sequence[Style]) -> Figure | None:
    """How old contributions were when they were applied; None without a server."""
    data = []
    for number, (run, look) in enumerate(zip(runs, looks, strict=True)):
        counts = run.figures.staleness_counts
        total = sum(counts.values())
        if total:
            data.append({"type": "bar", "meta": number, "name": escape(look.label), "x": list(counts),
                         "y": [_short(count / total) for count in counts.values()],
                         "hovertemplate": "%{y:.1%} were %{x} updates old<extra>%{fullData.name}</extra>",
                         "marker": {"color": f"run-{look.color}", "pattern": {
                             "shape": look.pattern, "fillmode": "replace", "size": 6}}})  # fmt: skip
    layout = {
        "barmode": "group",
        "xaxis": {"title": {"text": "age in updates"}, "dtick": 1 if _span(runs) < 16 else None},
        "yaxis": {"title": {"text": "share of contributions"}, "tickformat": ".0%", "rangemode": "tozero"},
    }
    return Figure("staleness", "Staleness", "", data, layout) if data else None


def _span(runs: Sequence[RunRecord]) -> int:
    return max((age for run in runs for age in run.figures.staleness_counts), default=0)


def _cut(label: str, *, width: int = 26) -> str:
    return label if len(label) <= width else label[: width - 1] + "…"
