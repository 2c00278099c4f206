"""The report of a search as one HTML page: the policy layer by layer, rewards, accuracy against budget, all methods.

The first drawing is AMC's figure 14: one bar a layer, coloured by the side of its kernel; with rounds, a line a round.
Loads nothing from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from tightwire.engines import page as pages
from tightwire.engines.page import COLORS, legend, table
from tightwire.engines.search_chart import Axis, Plot, percents
from tightwire.engines.search_words import why
from tightwire.telemetry.report.units import show_bytes, show_number, show_seconds

_NAMED = 10  # layers at most that are named below their bars


def page(result: dict[str, Any]) -> str:
    """The whole page."""
    share = result["cost"] / result["whole"]
    test = result["test_accuracy"]
    summary = (
        f"{_amount(result, result['cost'])}, {share:.1%} of the network's; budget {result['budget'] or 'none'}. "
        f"Error {result['error']:.2%} on {result['settings']['samples']:,} samples kept apart, nothing retrained. "
        f"Test accuracy {test['before']:.2%} before, {test['pruned']:.2%} pruned. {show_seconds(result['seconds'])}."
    )
    return pages.page(
        "search",
        f"{result['model']}: {result['prune']} by {result['method']}",
        summary + _latency(result),
        [
            ("What every layer keeps", _policy(result)),
            ("Rewards", _rewards(result["methods"])),
            ("Accuracy against budget", _frontier(result)),
            ("Methods", _methods(result)),
            ("Layers", _layers(result["layers"])),
        ],
    )


def _latency(result: dict[str, Any]) -> str:
    timed = result["settings"].get("latency") or {}
    if not timed:
        return ""
    now, budget, whole = (timed[key] / 1e6 for key in ("measured_ns", "budget_ns", "whole_ns"))
    return f" Timed as a whole: {now:.3f} ms of {budget:.3f} ms; {whole:.3f} ms before."


def _amount(result: dict[str, Any], cost: float) -> str:
    kind = result["budget"].partition("=")[0] or result["settings"]["wish"]["reward"]
    words = {"flops": f"{_thousands(cost)} multiply-adds", "params": f"{_thousands(cost)} parameters",
             "bytes": show_bytes(cost), "latency": f"{cost / 1e6:.3f} ms in layers"}  # fmt: skip
    return words.get(kind, show_number(cost))


def _thousands(count: float) -> str:
    """A number in thousands or millions.

    >>> _thousands(23_600), _thousands(62_900_000), _thousands(950)
    ('23.6 thousand', '62.9 million', '950')
    """
    for size, word in ((1e6, "million"), (1e3, "thousand")):
        if count >= size:
            return f"{show_number(count / size)} {word}"
    return show_number(count)


def _policy(result: dict[str, Any]) -> str:
    """One bar a layer, by the side of its kernel; a line for each round before."""
    layers = result["layers"]
    sides = sorted({row["k"] for row in layers})
    plot = Plot(_axis(0.5, len(layers) + 0.5, "layer"), percents(0.0, 1.0, "kept"))
    marks = [
        plot.bar(number, row["ratio"], 0.78, f"c{sides.index(row['k'])}", f"{row['layer']}: {row['ratio']:.1%}")
        for number, row in enumerate(layers, start=1)
    ]
    keys = [(f"c{n}", f"{side}×{side}") for n, side in enumerate(sides)]
    rounds = result["settings"].get("rounds") or []
    for number, row in enumerate(rounds[:-1]):
        style = f"c{(len(sides) + number) % len(COLORS)}"
        marks.append(plot.line(list(enumerate(row["layers"], start=1)), f"thin {style}"))
        keys.append((style, f"round at {row['density']:.0%}"))
    every = max(1, len(layers) // 12)
    names = [
        (float(n), row["layer"].removesuffix(".weight") if len(layers) <= _NAMED else str(n))
        for n, row in enumerate(layers, start=1)
        if n == 1 or n % every == 0
    ]
    return legend(keys) + plot.svg(marks, "the share that each layer keeps", names=names)


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
    return legend([(f"c{n}", name) for n, name in enumerate(rewards)]) + plot.svg(marks, "rewards of all evaluations")


def _frontier(result: dict[str, Any]) -> str:
    """All policies seen, those that no other beats as a line, uniform ones as another."""
    whole, limit = result["whole"], result["target"] / result["whole"]
    seen = {name: [(row[2] / whole, 1 - row[1]) for row in one["trace"]] for name, one in result["methods"].items()}
    right = min(1.0, max(2.5 * limit, *(x for some in seen.values() for x, _ in some)))
    uniform = [(cost / whole, 1 - error) for cost, error in result["frontier"] if cost / whole <= right + 1e-9]
    every = [point for some in seen.values() for point in some] + uniform
    low, high = sorted(y for _, y in every)[len(every) // 4], max(y for _, y in every)
    margin = 0.05 * (high - low) or 0.01
    plot = Plot(
        percents(0.0, 1.05 * right, "cost, of the whole network"),
        percents(low - margin, min(1.0, high + margin), "accuracy, not retrained"),
    )
    marks = [plot.dots(some, f"c{n}") for n, some in enumerate(seen.values())]
    marks.append(plot.line(uniform, f"thin c{len(seen) % len(COLORS)}"))
    marks.append(plot.line(pareto(every), "thin target"))
    if limit < right:
        marks.append(plot.line([(limit, low - margin), (limit, high + margin)], "thin target"))
    chosen = list(seen).index(result["method"])
    marks.append(plot.dots([(result["cost"] / whole, 1 - result["error"])], f"c{chosen} star", radius=5))
    keys = [(f"c{n}", name) for n, name in enumerate(seen)] + [(f"c{len(seen) % len(COLORS)}", "uniform at every size")]
    return (
        legend(keys)
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
    reason = why(result)
    said = f"<p>Taken: {result['method']}. {reason[0].upper()}{reason[1:]}.</p>" if reason else ""
    return table(("method", "error", "cost", "evaluations", "time"), rows) + said


def _layers(layers: Sequence[dict[str, Any]]) -> str:
    rows = [
        (row["layer"], f"{row['k']}×{row['k']}", f"{row['kept']:,} of {row['of']:,}", f"{row['ratio']:.1%}",
         row["pattern"], str(row["bits"] or "–"))
        for row in layers
    ]  # fmt: skip
    return table(("layer", "kernel", "kept", "share", "in", "bits"), rows)


def _axis(low: float, high: float, title: str) -> Axis:
    return Axis(low, high, title, lambda v: f"{v:.0f}")
