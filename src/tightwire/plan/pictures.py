"""A plan drawn: speed-up over workers, time over bandwidth, where a step goes, and who waits for whom.

Pictures are plain data for plotly, as in `telemetry.report`; a recipe looks the same in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10
from typing import Any

from tightwire.plan.breakeven import Sweep, line_rate, say, show_rate
from tightwire.plan.cluster import Cluster
from tightwire.plan.kinds import WORDS
from tightwire.plan.search import Ranking, Row
from tightwire.plan.trace import Trace
from tightwire.telemetry.report.axes import log_axis
from tightwire.telemetry.report.figures import Figure
from tightwire.telemetry.report.style import Style, look
from tightwire.telemetry.report.units import show_number, show_seconds

MOST = 8  # lines in a picture
_LEGEND = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "traceorder": "normal"}
_ROOM = {"l": 52, "r": 18, "t": 44, "b": 46}  # for that legend
_WIRE = ("send", "encode", "decode")  # what the comm thread does, below what the worker does meanwhile
_PARTS = (
    ("compute", "compute_s", "run-0", ""),
    ("encode", "encode_s", "run-3", "/"),
    ("exchange", "exchange_s", "run-1", ""),
    ("decode", "decode_s", "run-4", "\\"),
    ("update", "update_s", "run-2", "x"),
    ("wait", "wait_s", "muted", "."),
)
_DOINGS = {
    "compute": ("run-0", "computes"),
    "encode": ("run-3", "encodes"),
    "send": ("run-1", "exchanges"),
    "wait": ("rule", "waits"),
    "decode": ("run-4", "decodes"),
    "update": ("run-2", "updates"),
    "serve": ("run-5", "serves"),
    "down": ("ink", "is down"),
}


def shown(ranking: Ranking, most: int = MOST) -> list[str]:
    """The recipes worth a line: plain synchronous SGD, what is advised, what is first, then the ranking from its top.

    Of recipes that would draw the same line only the plainest is drawn.
    """
    plain = [row for row in ranking.rows if row.candidate.name == "sync-sgd"]
    wanted = [*plain, ranking.advised, ranking.first, *ranking.rows]
    found: dict[float, Row] = {}
    for row in wanted:
        found.setdefault(float(f"{row.prediction.step_s:.3g}"), row)
    return list(dict.fromkeys(row.candidate.name for row in found.values()))[:most]


def looks(ranking: Ranking, found: Sweep) -> dict[str, tuple[int, Style]]:
    """Number and looks of each recipe that has a line in some picture."""
    curves = [candidate.name for candidate, _ in found.curves]
    names = dict.fromkeys([*shown(ranking, MOST - len(curves) + 1), *curves])
    return {name: (at, look(at, name)) for at, name in enumerate(names)}


def speedups(rankings: Sequence[Ranking], dressed: dict[str, tuple[int, Style]]) -> Figure:
    """Speed-up in samples a second over one worker, against workers; dashed, what would be perfect."""
    counts = [ranking.workers for ranking in rankings]
    ends = [min(counts), max(counts)]
    data: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "x": ends, "y": ends, "name": "perfect", "hoverinfo": "skip",
         "line": {"color": "muted", "width": 1, "dash": "5px,4px"}}
    ]  # fmt: skip
    values = [1.0]
    for name, (number, style) in dressed.items():
        places = [(r.workers, row) for r in rankings if (row := r.row(name)) is not None]
        values += [row.prediction.speedup for _, row in places]
        data.append(_line(number, style, [x for x, _ in places], [row.prediction.speedup for _, row in places]) | {
            "text": [escape(str(row.candidate)) for _, row in places],
            "hovertemplate": "%{text}<br>%{x} workers: %{y:.3~g}×<extra></extra>",
        })  # fmt: skip
    low, high = min(values), max([*values, *ends])
    layout = {
        "xaxis": {"title": {"text": "workers"}, "type": "log", "tickvals": counts, "ticktext": [str(n) for n in counts],
                  "range": [log10(ends[0]) - 0.05, log10(max(ends[1], 2)) + 0.05]},
        "yaxis": {"title": {"text": "speed-up"}} | log_axis(0.8 * low, 1.3 * high, show_number),
    }  # fmt: skip
    return Figure(
        "speedup", "Speed-up over one worker", "In samples per second, each worker with a batch of its own.", data,
        layout,
    )  # fmt: skip


def over_bandwidth(found: Sweep, cluster: Cluster, dressed: dict[str, tuple[int, Style]], unit: str) -> Figure:
    """The value of what is advised somewhere, at every bandwidth; the dotted line is the link planned for."""
    data = []
    for candidate, values in found.curves:
        number, style = dressed[candidate.name]
        rates = [line_rate(bandwidth) for bandwidth in found.bandwidths]
        data.append(_line(number, style, rates, list(values), str(candidate)) | {
            "hovertemplate": "%{fullData.name}<br>%{x:.3~s}bit/s: %{y:.3~g} " + unit + "<extra></extra>"
        })  # fmt: skip
    lowest, highest = (f(v for _, values in found.curves for v in values) for f in (min, max))
    here = line_rate(cluster.outermost.bytes_per_s)
    marks = [{"type": "line", "x0": here, "x1": here, "y0": 0, "y1": 1, "yref": "paper",
              "line": {"color": "#888888", "width": 1, "dash": "dot"}}]  # fmt: skip
    ends = [line_rate(found.bandwidths[0]), line_rate(found.bandwidths[-1])]
    layout = {
        "xaxis": {"title": {"text": "bandwidth between hosts, bit/s"}} | log_axis(ends[0], ends[1], _bits),
        "yaxis": {"title": {"text": unit}} | log_axis(0.8 * lowest, 1.25 * highest, show_number),
        "shapes": marks if ends[0] <= here <= ends[1] else [],
    }
    words = say(found.reigns)
    caption = f"{words[:1].upper()}{words[1:]}. Planned for: {show_rate(cluster.outermost.bytes_per_s)}."
    return Figure("bandwidth", "Break-even over bandwidth", caption, data, layout)


def step_parts(ranking: Ranking, most: int = 14) -> Figure:
    """Where the time of a step goes, from the fastest recipe down; lengths are seconds on a linear axis."""
    rows = sorted(ranking.rows, key=lambda row: row.prediction.step_s)[:most]
    names = [escape(str(row.candidate)) for row in rows]
    data = [
        {"type": "bar", "orientation": "h", "name": name, "y": names,
         "x": [getattr(row.prediction.parts, part) for row in rows],
         "hovertemplate": name + " %{x:.3~s}s<extra></extra>",
         "marker": {"color": color, "pattern": {"shape": shape, "fillmode": "replace", "size": 5, "solidity": 0.4}}}
        for name, part, color, shape in _PARTS
        if any(getattr(row.prediction.parts, part) > 0 for row in rows)
    ]  # fmt: skip
    layout = {
        "barmode": "stack",
        "bargap": 0.35,
        "height": 90 + 26 * len(rows),
        "showlegend": True,
        "legend": _LEGEND,
        "margin": _ROOM,
        "xaxis": {"title": {"text": "seconds of a step that nothing hides"}},
        "yaxis": {"autorange": "reversed", "automargin": True, "showgrid": False},
    }
    return Figure("parts", f"Where a step goes on {ranking.workers} workers", "", data, layout)


def timeline(trace: Trace, *, steps: int = 3) -> Figure:
    """Who computes, sends and waits: a lane for each worker, and for each shard of a server."""
    ends = sorted(span.end_s for span in trace.spans if span.step < steps)
    until = ends[-1] if ends else trace.seconds
    spans = [span for span in trace.spans if span.start_s < until and span.end_s > span.start_s]
    ranks = sorted({span.rank for span in spans}, key=lambda rank: (rank < 0, abs(rank)))
    lane = {rank: f"server {-rank - 1}" if rank < 0 else f"worker {rank}" for rank in ranks}
    data = []
    for kind, (color, words) in _DOINGS.items():
        mine = [span for span in spans if span.kind == kind]
        if mine:
            data.append(
                {"type": "bar", "orientation": "h", "name": words, "y": [lane[span.rank] for span in mine],
                 "base": [span.start_s for span in mine],
                 "x": [min(span.end_s, until) - span.start_s for span in mine],
                 "width": 0.36, "offset": 0.0 if kind in _WIRE else -0.38,
                 "hovertemplate": "%{y} " + words + " for %{x:.3~s}s<extra></extra>",
                 "marker": {"color": color, "line": {"width": 0.5, "color": "card"}}}
            )  # fmt: skip
    layout = {
        "barmode": "overlay",
        "height": 110 + 34 * len(ranks),
        "showlegend": True,
        "legend": _LEGEND,
        "margin": _ROOM,
        "xaxis": {"title": {"text": "seconds"}, "range": [0, until]},
        "yaxis": {"autorange": "reversed", "automargin": True, "showgrid": False, "type": "category",
                  "categoryorder": "array", "categoryarray": [lane[rank] for rank in ranks]},
    }  # fmt: skip
    caption = (
        f"Simulated: {show_seconds(trace.mean_step_s)} a step, {trace.utilisation:.0%} of the time computing. Above: "
        "what a worker does; below: what its wire does."
    )
    return Figure(f"timeline-{trace.recipe}", f"{trace.recipe}: who does what", caption, data, layout)


def legend_note(ranking: Ranking) -> str:
    """What the marks of the table mean, for those that occur."""
    kinds = dict.fromkeys(row.candidate.kind for row in ranking.rows)
    return "; ".join(f"{kind}: {WORDS[kind]}" for kind in kinds)


def _line(number: int, style: Style, x: list[Any], y: list[Any], name: str | None = None) -> dict[str, Any]:
    return {
        "type": "scatter", "meta": number, "mode": "lines+markers", "x": x, "y": y, "name": escape(name or style.label),
        "line": {"color": f"run-{style.color}", "width": 2.2, "dash": style.dash},
        "marker": {"color": f"run-{style.color}", "symbol": style.symbol, "size": 8, "maxdisplayed": 9},
    }  # fmt: skip


def _bits(value: float) -> str:
    unit, scale = next(((u, s) for u, s in (("G", 1e9), ("M", 1e6)) if value >= 0.995 * s), ("k", 1e3))
    return f"{value / scale:g}{unit}"
