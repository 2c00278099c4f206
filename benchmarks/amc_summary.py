"""What the rows of `benchmarks.amc` say together."""

from __future__ import annotations

import statistics
from typing import Any


def summary(rows: dict[str, Any]) -> dict[str, Any]:
    """Means and paired differences, of as many seeds as there are."""
    searches = [row for name, row in rows.items() if name.startswith("search-")]
    found: dict[str, Any] = {}
    if searches:
        found["before"] = {
            method: {
                key: statistics.mean(row["methods"][method][key] for row in searches)
                for key in ("test_accuracy", "held_accuracy", "seconds")
            }
            for method in searches[0]["methods"]
        }
        found["before_amc_over_uniform"] = [
            row["methods"]["amc"]["test_accuracy"] - row["methods"]["uniform"]["test_accuracy"] for row in searches
        ]
    tuned = {m: _by_seed(rows, f"tune.{m}-") for m in ("amc", "uniform")}
    found |= _paired("after", tuned)
    fine = {m: _by_seed(rows, f"fine.{m}-") for m in ("amc", "uniform")}
    found |= _paired("fine", fine)
    patterns = [row for name, row in rows.items() if name.startswith("pattern-")]
    if patterns:
        found["pattern"] = {
            side: statistics.mean(row["mean_density"][side] for row in patterns) for side in ("1x1", "3x3")
        }
    return found


def _by_seed(rows: dict[str, Any], start: str) -> dict[int, Any]:
    return {row["seed"]: row for name, row in rows.items() if name.startswith(start)}


def _paired(label: str, methods: dict[str, dict[int, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        label: {
            m: statistics.mean(row["test_accuracy"] for row in some.values()) for m, some in methods.items() if some
        }
    }
    both = sorted(set(methods["amc"]) & set(methods["uniform"]))
    if both:
        found[f"{label}_amc_over_uniform"] = [
            methods["amc"][seed]["test_accuracy"] - methods["uniform"][seed]["test_accuracy"] for seed in both
        ]
    return found if found[label] else {}
