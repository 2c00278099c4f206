"""The report of a search as one HTML page: the policy layer by layer, rewards, accuracy against budget, all methods.

The first drawing is AMC's figure 14: one bar a layer, coloured by the side of its kernel; with rounds, a line a round.
Loads nothing from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import Any

from tightwire.engines.config import ConfigError
from tightwire.engines.search_chart import Axis, Plot
from tightwire.telemetry.report.units import show_bytes, show_number, show_seconds

_COLORS = ("#0072b2", "#d55e00", "#00875f", "#b4528a", "#b07a00")
_NAMED = 10  # layers at most that are named below their bars
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>{title}</title><style>{css}
.plot{{width:100%;min-width:34rem;height:auto;font:11px system-ui,sans-serif}}
.plot text{{fill:currentColor;opacity:.75}}
.plot .end{{text-anchor:end}}.plot .mid{{text-anchor:middle}}.axis,.grid,.line{{fill:none}}
.axis{{stroke:currentColor;opacity:.6}}.grid{{stroke:currentColor;opacity:.13}}.line{{stroke-width:2}}
.thin{{stroke-width:1.4}}
.dot{{opacity:.35}}.star{{opacity:1;stroke:currentColor}}.target{{stroke:currentColor;stroke-dasharray:5 4;opacity:.7}}
.key{{display:inline-block;margin:0 1.2em .4em 0}}.key i{{display:inline-block;width:.9em;height:.9em;border-radius:2px;
margin-right:.4em;vertical-align:-.1em}}{colors}</style></head>
<body><main><header><p class="brand">tightwire search</p><h1>{title}</h1><p class="compared">{summary}</p></header>
<section><h2>What every layer keeps</h2>{policy}</section>
<section><h2>Rewards</h2>{rewards}</section>
<section><h2>Accuracy against budget</h2>{frontier}</section>
<section><h2>Methods</h2>{methods}</section>
<section><h2>Layers</h2>{layers}</section></main></body></html>
"""


def write_page(result: dict[str, Any], out: Path) -> None:
    """Write the page, whole or not at all."""
    partial = out.with_name(f".{out.name}.partial")
    try:
        partial.write_text(page(result), encoding="utf-8")
        partial.replace(out)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror}); name another --out") from None


def page(result: dict[str, Any]) -> str:
    """The whole page."""
    css = files("tightwire.telemetry.report").joinpath("page.css").read_text(encoding="utf-8")
    colors = "".join(
        f".c{n}{{fill:{c};stroke:{c};background:{c}}}.line.c{n}{{fill:none}}rect.c{n}{{stroke:none}}"
        for n, c in enumerate(_COLORS)
    )
    share = result["cost"] / result["whole"]
    test = result["test_accuracy"]
    summary = (
        f"{_amount(result, result['cost'])}, {share:.1%} of the network's; budget {result['budget'] or 'none'}. "
        f"Error {result['error']:.2%} on {result['settings']['samples']:,} samples kept apart, nothing retrained. "
        f"Test accuracy {test['before']:.2%} before, {test['pruned']:.2%} pruned. {show_seconds(result['seconds'])}."
    )
    return _PAGE.format(
        title=escape(f"{result['model']}: {result['prune']} by {result['method']}"), css=css, colors=colors,
        summary=escape(summary + _latency(result)), policy=_policy(result), rewards=_rewards(result["methods"]),
        frontier=_frontier(result), methods=_methods(result), layers=_layers(result["layers"]),
    )  # fmt: skip


def _latency(result: dict[str, Any]) -> str:
    timed = result["settings"].get("latency") or {}
    if not timed:
        return ""
    now, budget, whole = (timed[key] / 1e6 for key in ("measured_ns", "budget_ns", "whole_ns"))
    return f" Timed as a whole: {now:.3f} ms of {budget:.3f} ms; {whole:.3f} ms before."


def _amount(result: dict[str, Any], cost: float) -> str:
    kind = result["budget"].partition("=")[0] or result["settings"]["wish"]["reward"]
    words = {"flops": f"{show_number(cost / 1e6)} M multiply-adds", "params": f"{show_number(cost)} parameters",
             "bytes": show_bytes(cost), "latency": f"{cost / 1e6:.3f} ms in layers"}  # fmt: skip
    return words.get(kind, show_number(cost))


def _policy(result: dict[str, Any]) -> str:
    """One bar a layer, by the side of its kernel; a line for each round before."""
    layers = result["layers"]
    sides = sorted({row["k"] for row in layers})
    plot = Plot(_axis(0.5, len(layers) + 0.5, "layer"), Axis(0.0, 1.0, "kept", lambda v: f"{v:.0%}"))
    marks = [
        plot.bar(number, row["ratio"], 0.78, f"c{sides.index(row['k'])}", f"{row['layer']}: {row['ratio']:.1%}")
        for number, row in enumerate(layers, start=1)
    ]
    keys = [(f"c{n}", f"{side}×{side}") for n, side in enumerate(sides)]
    rounds = result["settings"].get("rounds") or []
    for number, row in enumerate(rounds[:-1]):
        style = f"c{(len(sides) + number) % len(_COLORS)}"
        marks.append(plot.line(list(enumerate(row["layers"], start=1)), f"thin {style}"))
        keys.append((style, f"round at {row['density']:.0%}"))
    every = max(1, len(layers) // 12)
    names = [
        (float(n), row["layer"].removesuffix(".weight") if len(layers) <= _NAMED else str(n))
        for n, row in enumerate(layers, start=1)
        if n == 1 or n % every == 0
    ]
    return _keys(keys) + plot.svg(marks, "the share that each layer keeps", names=names)


def _rewards(methods: dict[str, Any]) -> str:
    """Every evaluation a dot, the best so far a line."""
    rewards = {name: [row[0] for row in one["trace"]] for name, one in methods.items()}
    longest = max([len(some) for some in rewards.values()] + [one["evaluations"] for one in methods.values()])
    high = max(max(some) for some in rewards.values())
    low = min(sorted(some)[len(some) // 4] for some in rewards.values())  # the worst quarter lies on the edge
    margin = 0.06 * (high - low) or 0.01
    plot = Plot(_axis(0, longest, "evaluation"), Axis(low - margin, high + margin, "reward", lambda v: f"{v:.3g}"))
    marks = []
    for n, some in enumerate(rewards.values()):
        if len(some) > 1:
            marks.append(plot.dots(list(enumerate(some, start=1)), f"c{n}", radius=1.6))
        so_far = list(accumulate(some, max))
        points = [(float(at), value) for at, value in enumerate(so_far, start=1)]
        marks.append(plot.line([*points, (float(longest), so_far[-1])], f"c{n}"))
    return _keys([(f"c{n}", name) for n, name in enumerate(rewards)]) + plot.svg(marks, "rewards of all evaluations")


def _frontier(result: dict[str, Any]) -> str:
    """All policies seen, those that no other beats as a line, uniform ones as another."""
    whole = result["whole"]
    uniform = [(cost / whole, 1 - error) for cost, error in result["frontier"]]
    seen = {name: [(row[2] / whole, 1 - row[1]) for row in one["trace"]] for name, one in result["methods"].items()}
    every = [point for some in seen.values() for point in some] + uniform
    low = sorted(y for _, y in every)[len(every) // 4]
    high, right = max(y for _, y in every), max(x for x, _ in every)
    margin = 0.05 * (high - low) or 0.01
    plot = Plot(
        Axis(0.0, 1.05 * right, "cost, of the whole network", lambda v: f"{v:.{0 if right > 0.1 else 1}%}"),
        Axis(low - margin, high + margin, "accuracy, not retrained", lambda v: f"{v:.1%}"),
    )
    marks = [plot.dots(some, f"c{n}") for n, some in enumerate(seen.values())]
    marks.append(plot.line(uniform, f"thin c{len(seen) % len(_COLORS)}"))
    marks.append(plot.line(pareto(every), "thin target"))
    limit = result["target"] / whole
    if limit < right:
        marks.append(plot.line([(limit, low - margin), (limit, high + margin)], "thin target"))
    chosen = list(seen).index(result["method"])
    marks.append(plot.dots([(result["cost"] / whole, 1 - result["error"])], f"c{chosen} star", radius=5))
    keys = [(f"c{n}", name) for n, name in enumerate(seen)] + [
        (f"c{len(seen) % len(_COLORS)}", "uniform at every size")
    ]
    return (
        _keys(keys)
        + plot.svg(marks, "accuracy against cost")
        + ("<p>Dashed: what no policy seen here beats, and the budget. The large dot is the policy that was taken.</p>")
    )


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that no other beats: no cheaper one is as accurate.

    >>> pareto([(0.5, 0.9), (0.3, 0.8), (0.4, 0.7), (1.0, 0.95)])
    [(0.3, 0.8), (0.5, 0.9), (1.0, 0.95)]
    """
    kept: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda p: (p[0], -p[1])):
        if not kept or point[1] > kept[-1][1]:
            kept.append(point)
    return kept


def _methods(result: dict[str, Any]) -> str:
    rows = [
        (name, f"{one['error']:.2%}", f"{one['cost'] / result['whole']:.1%}", f"{one['evaluations']:,}",
         show_seconds(one["seconds"]))
        for name, one in result["methods"].items()
    ]  # fmt: skip
    return _table(("method", "error", "cost", "evaluations", "time"), rows)


def _layers(layers: Sequence[dict[str, Any]]) -> str:
    rows = [
        (row["layer"], f"{row['k']}×{row['k']}", f"{row['kept']:,} of {row['of']:,}", f"{row['ratio']:.1%}",
         row["pattern"], str(row["bits"] or "–"))
        for row in layers
    ]  # fmt: skip
    return _table(("layer", "kernel", "kept", "share", "in", "bits"), rows)


def _axis(low: float, high: float, title: str) -> Axis:
    return Axis(low, high, title, lambda v: f"{v:.0f}")


def _keys(keys: Sequence[tuple[str, str]]) -> str:
    return "<p>" + "".join(f'<span class="key"><i class="{c}"></i>{escape(text)}</span>' for c, text in keys) + "</p>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(value)}</td>" for value in row[1:])}</tr>'
        for row in rows
    )
    return f'<div class="scroll"><table class="runs"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
