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
    for case in record["by_case"]:
        path = RESULTS / f"predict_{case}.json"
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        errors += [abs(row["error"]) for row in rows]
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
        "([drawn](images/predict.svg)). Servers between hosts and some codecs take longer than predicted:\n\n"
        + table(["case", "recipe", "measured", "predicted", "step", "bytes"], shown)
    )


def simulate(record: dict[str, Any]) -> str:
    """How fast the simulator is."""
    who = f"{record['workers']:,} asynchronous workers (`{record['recipe']}`, {record['link']}, times lognormal)"
    return (
        f"## The simulator\n\n{record['worker_steps']:,} steps of {who} in **{record['seconds']:.0f} s** on one core.\n"
    )
