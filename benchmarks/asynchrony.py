"""What asynchrony costs and saves: Fashion-MNIST, `cnn`, 4 workers on the in-process link, times lognormal.

    python -m benchmarks.asynchrony --data-folder DIR [--at-once 16] [--work DIR] [--parts compare downpour softsync]

    compare    sync-sgd, easgd and agn at tau = 10, paired by seed: accuracy, bytes
    downpour   accuracy over the period, push = fetch = 1, 2, 5, 10, 20, 50, for two rates of its Adagrad; mean of seeds
    softsync   accuracy over the rate, at a constant rate and divided by each gradient's age, for several n

The rate of softsync is what a fresh gradient is multiplied by. The recipe divides your rate by n, so it is given n
times as much. Rows are written as runs finish (`benchmarks.runs`); `benchmarks.figures` draws them.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import runs
from benchmarks.harness import write
from benchmarks.runs import Asked
from tightwire.engines.config import RunConfig

COMPARED: dict[str, dict[str, Any]] = {
    "sync-sgd": {},
    "easgd:tau=10:beta=1.8": {"lr": 0.05, "momentum": 0.9},
    "agn:tau=10": {"lr": 0.1, "momentum": 0.9},
}
PERIODS = (1, 2, 5, 10, 20, 50)
GAMMAS = (0.003, 0.01)  # of Downpour's Adagrad: at 0.03, the default, its first steps throw this network off
UPDATES = (2, 4)
RATES = (0.1, 0.2, 0.4, 0.8)
MOMENTUM = 0.0
CHANCE = 0.1  # of ten classes
Done = dict[Asked, dict[str, Any]]


def _asked(name: str, seed: int, **settings: Any) -> Asked:
    return Asked(name, seed, tuple(sorted(settings.items())))


# ── compare ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def compared(seeds: Sequence[int]) -> dict[tuple[str, int], Asked]:
    """The runs, by recipe and seed."""
    return {(name, seed): _asked(name, seed, **own) for seed in seeds for name, own in COMPARED.items()}


def compare_rows(done: Done, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Accuracy by recipe and seed, the difference to `sync-sgd` with the same seed, and how many fewer bytes."""
    found = {key: done[asked] for key, asked in compared(seeds).items() if "error" not in done.get(asked, {"error": 0})}
    rows = []
    for name, own in COMPARED.items():
        mine = {seed: run for (recipe, seed), run in found.items() if recipe == name}
        pairs = [(run, found["sync-sgd", seed]) for seed, run in mine.items() if ("sync-sgd", seed) in found]
        if pairs:
            rows.append(
                {
                    "recipe": name,
                    **own,
                    "accuracy": {str(seed): run["test_accuracy"] for seed, run in mine.items()},
                    "points_above_sync_sgd": statistics.mean(
                        100 * (run["test_accuracy"] - base["test_accuracy"]) for run, base in pairs
                    ),
                    "fewer_bytes": statistics.mean(_bytes(base) / _bytes(run) for run, base in pairs),
                    "bytes_a_step": statistics.mean(_bytes(run) / run["steps"] for run in mine.values()),
                    "steps": max(run["steps"] for run in mine.values()),
                    "cpu_seconds": statistics.mean(run["cpu_seconds"] for run in mine.values()),
                }
            )
    return rows


def _bytes(run: dict[str, Any]) -> float:
    """Sent and received by one worker."""
    return float(run["wire"]["tx_bytes"] + run["wire"]["rx_bytes"])


# ── downpour ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def poured(epochs: float, seeds: Sequence[int]) -> dict[tuple[float, int], list[Asked]]:
    """The runs of all seeds, by rate and period; rate and period 0 are `sync-sgd`, for as many epochs."""
    names = {(0.0, 0): "sync-sgd"} | {
        (gamma, tau): f"downpour:push={tau}:fetch={tau}:gamma={gamma}" for gamma in GAMMAS for tau in PERIODS
    }
    return {key: [_asked(name, seed, epochs=epochs) for seed in seeds] for key, name in names.items()}


def downpour_rows(done: Done, epochs: float, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Accuracy by rate and period, where all seeds are there; a run that broke off counts as chance."""
    rows = []
    for (gamma, tau), asked in poured(epochs, seeds).items():
        if all(run in done for run in asked):
            found = [_figures(done[run]) for run in asked]
            each = [CHANCE if one["accuracy"] is None else one["accuracy"] for one in found]
            ages = [one["staleness"] for one in found if one.get("staleness") is not None]
            age = statistics.mean(ages) if ages else None
            rows.append({"gamma": gamma, "tau": tau, "accuracy": statistics.mean(each), "each": each, "staleness": age})
    return rows


def _figures(run: dict[str, Any]) -> dict[str, Any]:
    if "error" in run:
        return {"accuracy": None, "error": run["error"]}
    return {
        "accuracy": run["test_accuracy"],
        "staleness": (run["staleness"] or {"mean": None})["mean"],
        "steps": run["steps"],
        "cpu_seconds": run["cpu_seconds"],
    }


# ── softsync ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def softened(epochs: float) -> dict[tuple[int, float, str], Asked]:
    """The runs, by n, rate, and whether the rate is constant or by age."""
    found = {}
    for n in UPDATES:
        for rate in RATES:
            own = {"momentum": MOMENTUM, "epochs": epochs}
            found[n, rate, "constant"] = _asked(f"softsync:n={n}", 0, lr=n * rate, **own)
            found[n, rate, "by age"] = _asked(f"staleness-aware:n={n}", 0, lr=rate, **own)
    return found


def softsync_rows(done: Done, epochs: float) -> list[dict[str, Any]]:
    """Accuracy by n, rate and rule."""
    return [
        {"n": n, "rate": rate, "rule": rule, **_figures(done[asked])}
        for (n, rate, rule), asked in softened(epochs).items()
        if asked in done
    ]


# ── all of it ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _seeds(asked: argparse.Namespace) -> range:
    return range(asked.first_seed, asked.first_seed + asked.seeds)


def figures(configs: Mapping[Asked, RunConfig], asked: argparse.Namespace) -> dict[str, Any]:
    """Everything that is known by now."""
    done = {run: found for run, config in configs.items() if (found := runs.result(config)) is not None}
    return {
        **runs.settings_of(asked),
        "compare": compare_rows(done, _seeds(asked)),
        "downpour": downpour_rows(done, asked.downpour_epochs, _seeds(asked)),
        "softsync": softsync_rows(done, asked.softsync_epochs),
        "downpour_epochs": asked.downpour_epochs,
        "softsync_epochs": asked.softsync_epochs,
        "momentum": MOMENTUM,
    }


def main() -> None:
    """Run and write the result."""
    parser = runs.arguments(__doc__, epochs=6.0, batch=16)
    parser.add_argument("--downpour-epochs", type=float, default=2.0)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--softsync-epochs", type=float, default=0.5)
    parser.add_argument("--parts", nargs="*", default=["compare", "downpour", "softsync"])
    parser.add_argument("--variant", default="", help="added to the name of the file, as _short")
    asked = parser.parse_args()
    parts = {
        "compare": compared(_seeds(asked)).values(),
        "downpour": [run for runs_ in poured(asked.downpour_epochs, _seeds(asked)).values() for run in runs_],
        "softsync": softened(asked.softsync_epochs).values(),
    }
    with runs.folder_for(asked) as folder:
        configs = {run: run.config(asked, folder) for part in asked.parts for run in parts[part]}
        runs.run_all(
            list(configs.values()), asked, lambda: runs.keep("asynchrony", figures(configs, asked), asked.variant)
        )
        write("asynchrony", figures(configs, asked), asked.variant)


if __name__ == "__main__":
    main()
