"""What the rows of `benchmarks.amc` say together."""

from __future__ import annotations

import statistics
from typing import Any

PAIR = ("amc", "uniform")
METHODS = ("amc", "uniform", "curvature", "sensitivity", "evolution")
LUCKIEST = "luckiest"  # of AMC's policies the best on the samples that decide, which `settle` need not take
SIDES = ("1x1", "3x3")
WHOLE = 32  # pixels, the side of an image of CIFAR-10


def summary(rows: dict[str, Any]) -> dict[str, Any]:
    """Means and paired differences, of as many seeds as there are."""
    return _before(starting(rows, "search-")) | _after(rows) | _fine(rows) | _pattern(starting(rows, "pattern-"))


def starting(rows: dict[str, Any], start: str) -> list[Any]:
    """The rows of one kind of task."""
    return [row for name, row in rows.items() if name.startswith(start)]


def _before(searches: list[Any]) -> dict[str, Any]:
    if not searches:
        return {}
    keys = ("test_accuracy", "held_accuracy", "seconds", "evaluations")
    known = {method: [row["methods"][method] for row in searches if method in row["methods"]] for method in METHODS}
    means = {
        method: {"searches": len(some)} | {key: statistics.mean(one[key] for one in some) for key in keys}
        for method, some in known.items()
        if some
    }
    over = [row["methods"]["amc"]["test_accuracy"] - row["methods"]["uniform"]["test_accuracy"] for row in searches]
    return {"before": means, "before_amc_over_uniform": over}


def _after(rows: dict[str, Any]) -> dict[str, Any]:
    paired = _paired({method: _by_seed(rows, f"tune.{method}-") for method in PAIR})
    return {"after": paired} if paired else {}


def _fine(rows: dict[str, Any]) -> dict[str, Any]:
    densities = sorted({row["density"] for row in starting(rows, "fine.")}, reverse=True)
    found = {
        f"{density:g}": _paired({m: _by_seed(rows, f"fine.{m}.{round(100 * density)}-") for m in PAIR})
        for density in densities
    }
    return {"fine": found} if found else {}


def _by_seed(rows: dict[str, Any], start: str) -> dict[int, Any]:
    return {row["seed"]: row for row in starting(rows, start)}


def _paired(methods: dict[str, dict[int, Any]]) -> dict[str, Any]:
    """Means of each method, and for seeds that have both, how far AMC is ahead and both are from the reference."""
    means = {m: statistics.mean(row["test_accuracy"] for row in some.values()) for m, some in methods.items() if some}
    both = sorted(set(methods["amc"]) & set(methods["uniform"]))
    over = [methods["amc"][seed]["test_accuracy"] - methods["uniform"][seed]["test_accuracy"] for seed in both]
    lost = {
        m: [methods[m][seed]["reference_accuracy"] - methods[m][seed]["test_accuracy"] for seed in both] for m in PAIR
    }
    return {"mean": means, "seeds": both, "amc_over_uniform": over, "lost": lost} if means else {}


def _pattern(patterns: list[Any]) -> dict[str, Any]:
    if not patterns:
        return {}
    return {
        "pattern": {
            method: {
                kind: {side: statistics.mean(row["methods"][method][kind][side] for row in patterns) for side in SIDES}
                for kind in ("mean_density", "weighted_density")
            }
            for method in patterns[0]["methods"]
        }
    }
