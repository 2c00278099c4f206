"""Frame accuracy of layer-wise training beside serial, paired by seed: dnn7 on spoken digits, 500 classes.

    python -m benchmarks.frames --data-folder DIR --device cuda --at-once 4 --work DIR [--systems serial,layer-wise …]

All systems see the same samples in the same minibatches. ``layer-wise`` has the stages that the speed rows of
``tightwire bench table1`` have for as many workers. Runs are processes of their own; rows are written as they finish,
and with ``--work`` a run that is cut goes on where it was (`benchmarks.runs`).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from typing import Any

from torch import nn

from benchmarks import runs
from benchmarks.harness import write
from tightwire import models
from tightwire.engines.config import RunConfig

STAGES = {2: 3, 4: 4, 8: 7}
"""Of the network with 10,217 outputs, as the balancer cuts it (tightwire bench table1)."""

SYSTEMS = "serial,layer-wise,layer-wise+discount,layer-wise+predict,layer-wise+spike,layer-wise+both,synchronous,asgd"
Key = tuple[str, int, int]


def centred(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The network with tanh instead of sigmoids: the same functions, activations around 0 (docs/layerwise.md)."""
    return models.make("dnn7", inputs=inputs, classes=classes, activation="tanh")


def narrow(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The same with 256 units a layer: for a CPU."""
    return models.make("dnn7", inputs=inputs, classes=classes, activation="tanh", width=256)


def recipe_of(system: str, workers: int) -> str:
    """``serial``, ``synchronous``, ``asgd``, ``layer-wise`` or ``layer-wise+predict``, as a recipe's text."""
    name, _, compensation = system.partition("+")
    if name == "layer-wise" and workers > 1:
        return f"layerwise:stages={STAGES[workers]}:wide={workers}:compensation={compensation or 'none'}"
    return {"serial": "sync-sgd", "layer-wise": "sync-sgd", "synchronous": "sync-sgd", "asgd": "asgd"}[name]


def config_of(asked: argparse.Namespace, system: str, workers: int, seed: int, folder: Any) -> RunConfig:
    """One run; ``--batch`` is the minibatch of all workers together, and of each one under ASGD."""
    each = asked.batch if system == "asgd" else max(1, asked.batch // workers)
    settings = (("workers", workers), ("batch", each), ("lr", asked.lr), ("momentum", asked.momentum))
    return runs.Asked(recipe_of(system, workers), seed, settings).config(asked, folder)


def table(configs: Mapping[Key, RunConfig]) -> list[dict[str, Any]]:
    """Accuracy by system, number of workers and seed, and the points lost to serial with the same seed."""
    found: dict[tuple[str, int], dict[int, float]] = {}
    failed: dict[tuple[str, int], str] = {}
    for (system, workers, seed), config in configs.items():
        result = runs.result(config)
        if result is not None and "error" in result:
            failed[system, workers] = result["error"]
        elif result is not None:
            found.setdefault((system, workers), {})[seed] = result["test_accuracy"]
    serial = found.get(("serial", 1), {})
    rows: list[dict[str, Any]] = [
        {"system": system, "workers": workers, "error": text} for (system, workers), text in failed.items()
    ]
    for (system, workers), by_seed in found.items():
        lost = [100 * (serial[seed] - right) for seed, right in by_seed.items() if seed in serial]
        rows.append(
            {
                "system": system,
                "workers": workers,
                "accuracy": statistics.mean(by_seed.values()),
                "by_seed": by_seed,
                "points_lost_to_serial": statistics.mean(lost) if lost else None,
                "points_lost_by_seed": lost,
            }
        )
    return rows


def main() -> None:
    """Run and write the result."""
    parser = runs.arguments(__doc__, epochs=10.0, batch=256)
    parser.set_defaults(data="speech", model="dnn7")
    parser.add_argument(
        "--systems", default="serial,layer-wise,layer-wise+discount,layer-wise+predict,synchronous,asgd"
    )
    parser.add_argument("--workers", default="2,4,8")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--variant", default="")
    asked = parser.parse_args()
    counts = [int(word) for word in asked.workers.split(",")]
    with runs.folder_for(asked) as folder:
        configs = {
            (system, workers, seed): config_of(asked, system, workers, seed, folder)
            for seed in range(asked.seeds)
            for system in asked.systems.split(",")
            for workers in ([1] if system == "serial" else counts)
        }
        settings = {**runs.settings_of(asked), "workers": counts, "lr": asked.lr, "momentum": asked.momentum}

        def keep() -> None:
            runs.keep("frames", {**settings, "rows": table(configs)}, asked.variant)

        runs.run_all(list(configs.values()), asked, keep)
        write("frames", {**settings, "rows": table(configs)}, asked.variant)


if __name__ == "__main__":
    main()
