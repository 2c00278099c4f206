"""Seconds to the same number of samples when workers are slow: 4 real processes that really sleep.

python -m benchmarks.stragglers [--rounds N]

permanent    rank 2 is held up 5 times as long as the others, in every step
transient    every step of every worker is held up by a lognormal factor of its own, σ = 1

A usual step sleeps 20 ms (permanent: σ = 0) beside a few of computing and asking, so that the sleeping decides, not how
many cores there are. Digits, `mlp`, batch 16. The recipes take turns, their order changes from round to round, and each
ratio is the median of the rounds' own ratios. A staleness bound of s lets the fast run s steps ahead, once: against a
worker that is slow for ever that is all it gives, however long the run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from typing import Any

from benchmarks.harness import write
from tightwire.engines.config import RunConfig, show_recipe
from tightwire.engines.start import run

WORKERS, BATCH, STEPS = 4, 16, 60
SAMPLES = WORKERS * BATCH * STEPS
SLOW: dict[str, dict[str, str]] = {
    "permanent": {"delays": "lognormal:0:20ms", "straggler": "2:5x"},
    "transient": {"delays": "lognormal:1:20ms"},
}
BOUNDS = (0, 1, 2, 4, 8)
SSP: list[tuple[str, dict[str, Any]]] = [("ssp", {"staleness": bound}) for bound in BOUNDS]
RUNS: list[tuple[str, dict[str, Any]]] = [("sync-sgd", {}), ("backup-workers", {"spare": 1}), ("asgd", {}), *SSP]
YARDSTICKS = ("sync-sgd", "ssp:staleness=0")


def measure(kind: str, recipe: str, params: dict[str, Any], seed: int) -> dict[str, Any]:
    """One run as `tightwire train --samples` makes it; no checkpoint falls into it."""
    with tempfile.TemporaryDirectory() as folder:
        return run(
            RunConfig(
                recipe=recipe, params=params, workers=WORKERS, batch=BATCH, samples=SAMPLES, seed=seed, folder=folder,
                save_every=10**6, restarts=0, **SLOW[kind],
            )
        )  # fmt: skip


def row(name: str, seconds: dict[str, list[float]], results: list[dict[str, Any]]) -> dict[str, Any]:
    """The rounds of one recipe, and how much faster than both kinds of lockstep it was."""
    stale = [result["staleness"]["mean"] for result in results if result["staleness"]]
    return {
        "recipe": name,
        "seconds": seconds[name],
        "median_seconds": statistics.median(seconds[name]),
        "samples": [result["samples"] for result in results],
        "staleness_mean": statistics.median(stale) if stale else None,
        "times_faster_than": {
            other: statistics.median(
                [theirs / ours for ours, theirs in zip(seconds[name], seconds[other], strict=True)]
            )
            for other in YARDSTICKS
        },
    }


def compare(kind: str, rounds: int) -> list[dict[str, Any]]:
    """All recipes of one kind of slowness, interleaved."""
    named = {show_recipe(recipe, params): (recipe, params) for recipe, params in RUNS}
    seconds: dict[str, list[float]] = {name: [] for name in named}
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in named}
    for number in range(rounds):
        order = list(named) if number % 2 == 0 else list(reversed(named))
        for name in order:
            result = measure(kind, *named[name], seed=number)
            seconds[name].append(result["seconds"])
            results[name].append(result)
    return [row(name, seconds, results[name]) for name in named]


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    figures = {
        "workers": WORKERS, "batch": BATCH, "samples": SAMPLES, "model": "mlp", "data": "digits", "slow": SLOW,
        "rows": {kind: compare(kind, rounds) for kind in SLOW},
    }  # fmt: skip
    write("stragglers", figures)


if __name__ == "__main__":
    main()
