"""Sections of docs/results.md about the planner."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.tables import table


def predict(record: dict[str, Any]) -> str:
    """Predicted and measured steps, case by case."""
    shown: list[list[object]] = []
    errors: list[float] = []
    worst: list[str] = []
    for case in record["by_case"]:
        path = RESULTS / f"predict_{case}.json"
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        errors += [abs(row["error"]) for row in rows]
        worst += [row["recipe"] for row in rows if abs(row["error"]) > 0.15]
        for row in rows:
            shown.append(
                [case, f"`{row['recipe']}`", f"{1e3 * row['measured_s']:.1f} ms", f"{1e3 * row['predicted_s']:.1f} ms",
                 f"{100 * row['error']:+.0f}%", f"{100 * row['tx_error']:+.2f}%"]
            )  # fmt: skip
    errors.sort()
    within = sum(error <= 0.15 for error in errors)
    return (
        "## Predictions beside measurements\n\nThe step of recipes, 4 workers on 2 cores, on loopback and between "
        f"hosts of the lab: {within} of {len(errors)} within 15%, median error {100 * errors[len(errors) // 2]:.0f}% "
        f"([drawn](images/predict.svg)). Cases are measured one by one, and the last time of each stands. "
        f"{_misses(worst)}:\n\n" + table(["case", "recipe", "measured", "predicted", "step", "bytes"], shown)
    )


def _misses(names: list[str]) -> str:
    """Who is further off than 15%, and how often."""
    if not names:
        return "None is further off"
    told = [f"`{name}` ({names.count(name)})" for name in dict.fromkeys(names)]
    return f"Further off, in so many cases: {', '.join(told)}"


def plan_first(record: dict[str, Any]) -> str:
    """The advised recipe beside the fastest, case by case."""
    shown: list[list[object]] = []
    for case, short in record["cases"].items():
        rows = json.loads((RESULTS / f"plan_first_{case}.json").read_text(encoding="utf-8"))["rows"]
        tried = {row["name"]: row["measured_s"] for row in rows if "measured_s" in row}
        shown.append(
            [case, f"`{short['advised']}`", f"{1e3 * tried[short['advised']]:.0f} ms", f"`{short['fastest']}`",
             f"{1e3 * tried[short['fastest']]:.0f} ms", f"{short['ratio']:.2f}", f"{len(tried)} of {len(rows)}"]
        )  # fmt: skip
    return (
        "## Is the advised recipe the fastest?\n\nTwo networks (784-w-w-w-10) at five rates, 4 workers on 2 cores: "
        f"the advised recipe is within 10% of the fastest in **{record['good']} of {record['of']}** cases. Measured "
        "were the advised one, the four that were predicted to be fastest, all that were predicted to take up to "
        "twice as long as the fastest, and the first beyond:\n\n"
        + table(["width, rate", "advised", "measured", "fastest", "measured", "ratio", "measured recipes"], shown)
    )


def simulate(record: dict[str, Any]) -> str:
    """How fast the simulator is."""
    who = f"{record['workers']:,} asynchronous workers (`{record['recipe']}`, {record['link']}, times lognormal)"
    return (
        f"## The simulator\n\n{record['worker_steps']:,} steps of {who} in **{record['seconds']:.0f} s** on one core.\n"
    )
