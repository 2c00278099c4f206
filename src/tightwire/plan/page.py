"""A plan as one HTML page that loads nothing from anywhere: the advice, the ranking, the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

from tightwire.plan.advice import Plan, advice, limit, show_time
from tightwire.plan.breakeven import show_rate
from tightwire.plan.pictures import legend_note, looks, over_bandwidth, speedups, step_parts, timeline
from tightwire.plan.search import Ranking, Row
from tightwire.plan.trace import Trace
from tightwire.telemetry.report.figures import Figure
from tightwire.telemetry.report.shell import chip, embed, figure, palette_css, part, plotly
from tightwire.telemetry.report.style import DARK, LIGHT, Style
from tightwire.telemetry.report.units import show_bytes, show_number, show_seconds

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; base-uri 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta name="generator" content="tightwire"><title>$title</title><link rel="icon" href="data:,"><style>
$css
.advice{font-size:17px;line-height:1.5;max-width:62em}.advice+.advice{margin-top:6px;font-size:15px;color:var(--muted)}
.kind{font-size:12px;border:1px solid var(--rule);border-radius:999px;padding:1px 8px;color:var(--muted)}
.runs td.words{text-align:left}.refused{margin-top:12px;columns:2;font-size:13px;color:var(--muted);padding-left:18px}
figure.wide{grid-column:1/-1}@media(max-width:860px){.refused{columns:1}}</style></head>
<body><main><header><p class="brand">tightwire plan</p><h1>$title</h1><p class="compared">$about</p></header>
<section>$advice$command</section>
<section aria-label="Figures"><h2>Figures</h2>
<div class="legend" role="group" aria-label="recipes shown">$legend</div><div class="figures">$figures</div></section>
<section aria-label="Ranking"><h2>Ranking on $workers</h2>$table<p class="fine">$note</p>$refused</section>
</main><footer>Predicted, not measured. This page loads nothing from anywhere.</footer>
<script type="application/json" id="page-data">$data</script><script id="plotly">$plotly</script><script>
$js</script></body></html>
"""
_UNITS = {"time": "seconds an epoch", "bytes": "bytes an epoch", "cost": "cost of an epoch"}
_WIDE = ("parts", "timeline")


def page(plan: Plan, traces: Sequence[Trace], command: str) -> str:
    """The whole page."""
    ranking = plan.chosen
    dressed = looks(ranking, plan.sweep)
    pictures = figures(plan, traces, dressed)
    script, _ = plotly()
    return Template(_PAGE).substitute(
        title=escape(f"{plan.profile.model} on {_count(ranking.workers)}: use {ranking.advised.candidate}"),
        about=escape(about(plan)),
        advice="".join(f'<p class="advice">{escape(line)}</p>' for line in advice(plan)),
        command=f"<h4>Run it</h4><pre>{escape(command)}</pre>",
        workers=_count(ranking.workers),
        table=table(ranking, dressed),
        note=escape(legend_note(ranking)),
        refused=_refused(ranking),
        legend="".join(chip(number, style) for number, style in dressed.values()),
        figures="".join(_place(picture) for picture in pictures),
        css=palette_css() + part("page.css"),
        data=embed(payload(pictures)),
        plotly=script,
        js=part("page.js"),
    )


def payload(pictures: Sequence[Figure]) -> dict[str, object]:
    """What ``page.js`` draws from."""
    plain = [picture.plain() for picture in pictures]
    return {"columns": {}, "figures": plain, "palette": {"light": LIGHT, "dark": DARK}}


def figures(plan: Plan, traces: Sequence[Trace], dressed: dict[str, tuple[int, Style]]) -> list[Figure]:
    """The pictures there are data for."""
    found = []
    if len(plan.rankings) > 1:
        found.append(speedups(plan.rankings, dressed))
    if plan.chosen.workers > 1:
        found.append(over_bandwidth(plan.sweep, plan.cluster, dressed, _UNITS[plan.aim.objective]))
    return [*found, step_parts(plan.chosen), *(timeline(trace) for trace in traces)]


def about(plan: Plan) -> str:
    """Under which conditions."""
    profile, link = plan.profile, plan.cluster.outermost
    latency = f", {show_time(link.latency_s)} away" if link.latency_s else ""
    return (
        f"{show_number(profile.nparams)} parameters, a batch of {profile.batch} in {show_time(profile.compute_s)} on "
        f"{profile.device}; links of {show_rate(link.bytes_per_s)}{latency}; {plan.aim.samples:,} samples an epoch; "
        f"objective: {plan.aim.objective}."
    )


def table(ranking: Ranking, dressed: dict[str, tuple[int, Style]]) -> str:
    """The ranking as HTML; on a phone every row becomes a card."""
    heads = ("step", "speed-up", "an epoch", "sent a step", "age", "limited by", "optimisation")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join(_line(row, ranking, dressed, heads) for row in ranking.rows)
    return (
        f'<div class="scroll"><table class="runs"><thead><tr><th scope="col">recipe</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def show_value(ranking: Ranking, row: Row) -> str:
    """The objective's value in its own unit."""
    show = {"time": show_seconds, "bytes": show_bytes, "cost": show_number}[ranking.aim.objective]
    return show(row.value)


def _line(row: Row, ranking: Ranking, dressed: dict[str, tuple[int, Style]], heads: Sequence[str]) -> str:
    found, candidate = row.prediction, row.candidate
    texts = (
        show_time(found.step_s), f"{found.speedup:.2f}×", show_value(ranking, row), show_bytes(found.tx_nbytes),
        f"{found.staleness:.1f}" if found.staleness else "–", limit(row),
    )  # fmt: skip
    cells = "".join(f'<td data-head="{h}">{escape(t)}</td>' for h, t in zip(heads[:-1], texts, strict=True))
    swatch = dressed[candidate.name][1].swatch() if candidate.name in dressed else '<span style="width:28px"></span>'
    best = " best" if row is ranking.advised else ""
    name = f"<b>{escape(str(candidate))}</b>{'<small>advised</small>' if best else ''}"
    kind = f'<td data-head="{heads[-1]}"><span class="kind">{candidate.kind}</span></td>'
    return f'<tr><th scope="row"><div class="who">{swatch}<span>{name}</span></div></th>{cells}{kind}</tr>'


def _refused(ranking: Ranking) -> str:
    items = "".join(f"<li><b>{escape(name)}</b>: {escape(why)}</li>" for name, why in ranking.refused)
    return f'<h4>Not possible there</h4><ul class="refused">{items}</ul>' if items else ""


def _place(picture: Figure) -> str:
    place = figure(picture)
    return place.replace('class="card"', 'class="card wide"', 1) if picture.key.startswith(_WIDE) else place


def _count(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"
