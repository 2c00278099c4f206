"""Accuracy of compressed training next to `sync-sgd`, paired by seed: 4 workers on the in-process link.

    python -m benchmarks.accuracy --data fashion-mnist --model cnn --data-folder DIR [--device cuda] [--at-once 8]

All recipes see the same samples. Runs are processes of their own, some at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import write
from tightwire.engines.config import RunConfig, parse_recipe

RECIPES = (
    "sync-sgd",
    "dgc:warmup=4",
    "dgc:warmup=4:values=log8:gaps=rice",
    "one-bit",
    "strom",
    "terngrad",
    "qsgd",
    "powersgd",
)


def one(config: str) -> None:
    """One run, described by JSON; writes its result into the run's folder."""
    from tightwire.engines.inside import run_inside  # noqa: PLC0415 -- torch only in the process that trains
    from tightwire.engines.outcome import read_outcomes  # noqa: PLC0415
    from tightwire.engines.start import judge, prepare  # noqa: PLC0415

    made = prepare(RunConfig(**json.loads(config)))
    run_inside(made, resume=False)
    judge(made, read_outcomes(made.path))


def start(config: RunConfig) -> subprocess.Popen[bytes]:
    """A run as a process of its own."""
    plain = json.dumps({key: value for key, value in vars(config).items() if value is not None})
    return subprocess.Popen([sys.executable, "-m", "benchmarks.accuracy", "--one", plain])


def run_all(configs: list[RunConfig], at_once: int, until: float) -> None:
    """All runs, some at once; what has not begun in time is left out."""
    waiting, running = list(configs), list[subprocess.Popen[bytes]]()
    while (waiting and time.monotonic() < until) or running:
        while waiting and len(running) < at_once and time.monotonic() < until:
            running.append(start(waiting.pop(0)))
        running = [process for process in running if process.poll() is None]
        time.sleep(0.5)


def table(configs: list[RunConfig]) -> list[dict[str, Any]]:
    """Accuracy by recipe and seed, and the difference to `sync-sgd` with the same seed."""
    results: dict[str, dict[int, dict[str, Any]]] = {}
    for config in configs:
        path = config.path / "result.json"
        if path.exists():
            results.setdefault(Path(config.folder).name, {})[config.seed] = json.loads(path.read_text())
    dense = results.get(RECIPES[0], {})
    rows = []
    for name, runs in results.items():
        gaps = [
            100 * (run["test_accuracy"] - dense[seed]["test_accuracy"]) for seed, run in runs.items() if seed in dense
        ]
        rows.append(
            {
                "recipe": name,
                "accuracy": {seed: run["test_accuracy"] for seed, run in runs.items()},
                "points_above_sync_sgd": statistics.mean(gaps) if gaps else None,
                "payload_ratio": statistics.mean(run["wire"]["payload_ratio"] for run in runs.values()),
                "seconds": statistics.mean(run["seconds"] for run in runs.values()),
            }
        )
    return rows


def main() -> None:
    """Run and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--data-folder")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--epochs", type=float, default=8.0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--recipes", nargs="*", default=RECIPES)
    asked = parser.parse_args()
    if asked.one:
        one(asked.one)
        return
    until = time.monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory() as folder:
        configs = []
        for seed in range(asked.seeds):
            for text in asked.recipes:
                name, params = parse_recipe(text)
                configs.append(
                    RunConfig(
                        recipe=name,
                        params=params,
                        data=asked.data,
                        data_folder=asked.data_folder,
                        model=asked.model,
                        epochs=asked.epochs,
                        batch=asked.batch,
                        device=asked.device,
                        seed=seed,
                        folder=f"{folder}/{seed}/{text}",
                        save_every=10**6,
                    )
                )
        run_all(configs, asked.at_once, until)
        figures = {"data": asked.data, "model": asked.model, "epochs": asked.epochs, "batch": asked.batch, "workers": 4}
        write("accuracy", {**figures, "rows": table(configs)}, f"_{asked.data}_{asked.model}")


if __name__ == "__main__":
    main()
