"""Accuracy of compressed training next to `sync-sgd`, paired by seed: 4 workers on the in-process link.

    python -m benchmarks.accuracy --data fashion-mnist --model cnn --data-folder DIR [--device cuda] [--at-once 8]

All recipes see the same samples; ``--recipes dgc dgc,lr=0.05`` tries another rate beside the recipe's own.
Runs are processes of their own, some at once; rows are written as runs finish (`benchmarks.runs`).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks import runs
from benchmarks.harness import write
from tightwire.engines.config import RunConfig
from tightwire.recipes.words import number_or_word

RECIPES = (
    "sync-sgd",
    "dgc",
    "dgc:warmup=4",
    "dgc:warmup=4:values=log8:gaps=rice",
    "one-bit",
    "strom",
    "terngrad",
    "qsgd",
    "powersgd",
)


def asked_for(text: str, seed: int) -> runs.Asked:
    """A recipe, and what else is not as the recipe has it.

    >>> asked_for("dgc:warmup=4,lr=0.05", 0)
    Asked(name='dgc:warmup=4', seed=0, settings=(('lr', 0.05),))
    """
    name, *settings = text.split(",")
    pairs = (setting.split("=") for setting in settings)
    return runs.Asked(name, seed, tuple((key, number_or_word(value)) for key, value in pairs))


def table(configs: Mapping[tuple[str, int], RunConfig]) -> list[dict[str, Any]]:
    """Accuracy by recipe and seed, and the difference to `sync-sgd` with the same seed."""
    results: dict[str, dict[int, dict[str, Any]]] = {}
    for (name, seed), config in configs.items():
        found = runs.result(config)
        if found is not None and "error" not in found:
            results.setdefault(name, {})[seed] = found
    dense = results.get(RECIPES[0], {})
    rows = []
    for name, found in results.items():
        gaps = [
            100 * (run["test_accuracy"] - dense[seed]["test_accuracy"]) for seed, run in found.items() if seed in dense
        ]
        rows.append(
            {
                "recipe": name,
                "accuracy": {seed: run["test_accuracy"] for seed, run in found.items()},
                "points_above_sync_sgd": statistics.mean(gaps) if gaps else None,
                "payload_ratio": statistics.mean(run["wire"]["payload_ratio"] for run in found.values()),
                "seconds": statistics.mean(run["seconds"] for run in found.values()),
            }
        )
    return rows


def main() -> None:
    """Run and write the result."""
    parser = runs.arguments(__doc__, epochs=8.0)
    parser.add_argument("--recipes", nargs="*", default=RECIPES)
    asked = parser.parse_args()
    variant = f"_{asked.data.replace('benchmarks.', '').replace(':', '-')}_{asked.model}_{asked.epochs:g}"
    with runs.folder_for(asked) as folder:
        configs = {
            (text, seed): asked_for(text, seed).config(asked, folder)
            for seed in range(asked.seeds)
            for text in asked.recipes
        }
        settings = runs.settings_of(asked)

        def keep() -> None:
            runs.keep("accuracy", {**settings, "rows": table(configs)}, variant)

        runs.run_all(list(configs.values()), asked, keep)
        write("accuracy", {**settings, "rows": table(configs)}, variant)


if __name__ == "__main__":
    main()
