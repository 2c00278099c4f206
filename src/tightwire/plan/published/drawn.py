"""Published speed-ups beside ours, as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Any

from tightwire.plan.page import payload
from tightwire.plan.published.page import lines
from tightwire.plan.published.paper import Claim, Paper
from tightwire.telemetry.report.axes import log_axis
from tightwire.telemetry.report.figures import Figure
from tightwire.telemetry.report.shell import embed, figure, palette_css, part, plotly
from tightwire.telemetry.report.style import look
from tightwire.telemetry.report.units import show_number

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; base-uri 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Published results</title><link rel="icon" href="data:,"><style>$css
.runs td,.runs thead th{text-align:left}</style></head>
<body><main><header><p class="brand">tightwire plan</p><h1>Published results as tests of the model</h1>
<p class="compared">Filled: printed. Bars: what the model gives from the stated inputs, over the range of what is not
stated.</p></header><section><div class="figures">$figures</div></section>
<section><div class="scroll"><table class="runs"><thead><tr><th>paper</th><th>what</th><th>printed</th><th>model</th>
<th>verdict</th></tr></thead><tbody>$rows</tbody></table></div></section></main>
<script type="application/json" id="page-data">$data</script><script id="plotly">$plotly</script><script>
$js</script></body></html>
"""


def drawn(papers: Sequence[Paper]) -> str:
    """The whole page."""
    pictures = [everything(papers), *(curves(paper) for paper in papers if paper.curves)]
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in lines(papers))
    return Template(_PAGE).substitute(
        css=palette_css() + part("page.css"), figures="".join(figure(picture) for picture in pictures), rows=rows,
        data=embed(payload(pictures)), plotly=plotly()[0], js=part("page.js"),
    )  # fmt: skip


def everything(papers: Sequence[Paper]) -> Figure:
    """Every claim: printed along, the model's middle up, its range as a bar; on the line they are equal."""
    data: list[dict[str, Any]] = []
    values = [v for paper in papers for claim in paper.claims for v in (claim.printed, claim.low, claim.high)]
    ends = [0.7 * min(values), 1.4 * max(values)]
    data.append({"type": "scatter", "mode": "lines", "x": ends, "y": ends, "hoverinfo": "skip",
                 "line": {"color": "muted", "width": 1, "dash": "5px,4px"}})  # fmt: skip
    for number, paper in enumerate(papers):
        style = look(number, paper.name)
        data.append(_ranges([(claim.printed, claim) for claim in paper.claims], style.color, escape(paper.name)))
    axis = log_axis(ends[0], ends[1], show_number)
    layout = {"xaxis": axis | {"title": {"text": "printed"}}, "yaxis": axis | {"title": {"text": "model"}}}
    return Figure("everything", "All printed numbers", "In the units of each paper; hover for which.", data, layout)


def curves(paper: Paper) -> Figure:
    """Speed-up over workers: markers printed, bars ours."""
    data: list[dict[str, Any]] = []
    counts = sorted({count for curve in paper.curves.values() for count in curve})
    for number, (method, curve) in enumerate(paper.curves.items()):
        style = look(number, method)
        data.append({"type": "scatter", "mode": "lines+markers", "name": escape(f"{method}, printed"),
                     "x": [1, *curve], "y": [1.0, *(claim.printed for claim in curve.values())],
                     "line": {"color": f"run-{style.color}", "width": 2.2, "dash": style.dash},
                     "marker": {"color": f"run-{style.color}", "symbol": style.symbol, "size": 9}})  # fmt: skip
        shifted = [(count * 1.03**number, claim) for count, claim in curve.items()]
        data.append(_ranges(shifted, style.color, escape(f"{method}, model")))
    top = max(max(claim.printed, claim.high) for curve in paper.curves.values() for claim in curve.values())
    layout = {
        "xaxis": {"title": {"text": "workers"}, "tickvals": [1, *counts], "range": [0.5, 1.1 * counts[-1]]},
        "yaxis": {"title": {"text": "speed-up"}, "range": [0, 1.1 * top]},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
        "margin": {"l": 52, "r": 18, "t": 74, "b": 46},
        "height": 380,
    }
    return Figure(f"curve-{paper.name.lower().replace(' ', '-')}", paper.name, "", data, layout)


def _ranges(places: Sequence[tuple[float, Claim]], color: int, name: str) -> dict[str, Any]:
    """The model's range as bars around its middle."""
    middles = [(claim.low * claim.high) ** 0.5 for _, claim in places]
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": [x for x, _ in places], "y": middles,
        "text": [escape(f"{claim.what}: printed {claim.printed:.3g}{claim.unit}") for _, claim in places],
        "hovertemplate": "%{text}<br>model %{y:.3~g}<extra>%{fullData.name}</extra>",
        "marker": {"color": f"run-{color}", "symbol": "line-ew-open", "size": 9},
        "error_y": {"type": "data", "symmetric": False, "color": f"run-{color}", "thickness": 3, "width": 5,
                    "array": [claim.high - middle for (_, claim), middle in zip(places, middles, strict=True)],
                    "arrayminus": [middle - claim.low for (_, claim), middle in zip(places, middles, strict=True)]},
    }  # fmt: skip
