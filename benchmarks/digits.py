"""Every recipe of the catalogue on digits with nothing but defaults, on shuffled and on sorted shards.

python -m benchmarks.digits
"""

from __future__ import annotations

import tempfile
from typing import Any, Literal

from benchmarks.harness import write
from tightwire.engines.config import RunConfig
from tightwire.engines.start import run
from tightwire.recipes.catalogue import CATALOGUE


def measure(recipe: str, shards: Literal["shuffled", "sorted"]) -> dict[str, Any]:
    """One run in real processes, as `tightwire train` makes it."""
    with tempfile.TemporaryDirectory() as folder:
        return run(RunConfig(recipe=recipe, workers=CATALOGUE[recipe].workers, shards=shards, folder=folder))


def main() -> None:
    """Measure and write the result."""
    rows = []
    for recipe in CATALOGUE:
        shuffled, apart = measure(recipe, "shuffled"), measure(recipe, "sorted")
        rows.append(
            {
                "recipe": recipe,
                "workers": shuffled["workers"],
                "accuracy": shuffled["test_accuracy"],
                "accuracy_sorted": apart["test_accuracy"],
                "tx_bytes": shuffled["wire"]["tx_bytes"],
                "payload_ratio": shuffled["wire"]["payload_ratio"],
            }
        )
    write("digits", {"epochs": 30, "model": "mlp", "rows": rows})


if __name__ == "__main__":
    main()
