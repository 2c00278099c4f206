"""AMC measured on CIFAR-10: against uniform, sensitivity and evolution, before and after fine-tuning; what it prunes.

    python -m benchmarks.amc --data DIR --device cuda --work DIR [--steps reference,search,tune,fine,pattern] [--jobs 5]
                             [--seeds 0,1,2,3,4] [--until 300]

    reference   ResNet-56 is trained                    search    half the multiply-adds by channels, four methods
    tune        what AMC and uniform cut, fine-tuned    fine      a fifth of the weights, in rounds; trained on
    pattern     a bottleneck ResNet: are 3×3 layers pruned more than 1×1?

DIR holds cifar10/. Every task is a process of its own, ``--jobs`` at a time, and writes its row into WORK when it is
done; rows that are there are not made again. After ``--until`` seconds no task is started any more, so that a call ends
in time, and the next call goes on. All rows are put together in ``benchmarks/results/amc.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.amc_summary import summary
from benchmarks.amc_tasks import TASKS, Asked
from benchmarks.harness import write

STEPS = ("reference", "search", "tune", "fine", "pattern")


def plan(steps: list[str], seeds: list[int]) -> dict[str, list[str]]:
    """Every task, and the rows it needs.

    >>> plan(["reference", "search"], [0, 1])
    {'reference-0': [], 'search-0': ['reference-0'], 'search-1': ['reference-0']}
    """
    tasks: dict[str, list[str]] = {}
    if "reference" in steps:
        tasks["reference-0"] = []
    if "pattern" in steps:
        tasks["bottleneck-0"] = []
    if "search" in steps:
        tasks |= {f"search-{seed}": ["reference-0"] for seed in seeds}
    if "fine" in steps:
        tasks |= {f"fine-{seed}": ["reference-0"] for seed in seeds[:2]}
        tasks |= {f"fine.{m}-{seed}": [f"fine-{seed}"] for seed in seeds[:2] for m in ("amc", "uniform")}
    if "pattern" in steps:
        tasks |= {f"pattern-{seed}": ["bottleneck-0"] for seed in seeds[:3]}
    if "tune" in steps:
        tasks |= {f"tune.{m}-{seed}": [f"search-{seed}"] for seed in seeds for m in ("amc", "uniform")}
    return tasks


def main() -> None:
    """Run the tasks that are missing, several at a time."""
    asked = _parse()
    asked.work.mkdir(parents=True, exist_ok=True)
    if asked.one is not None:
        name, _, seed = asked.one.partition("-")
        given = Asked(asked.data, asked.device, asked.work, int(seed), asked.epochs, asked.tune_epochs, asked.episodes,
                      asked.samples, asked.limit, asked.network)  # fmt: skip
        kind, _, method = name.partition(".")
        torch.set_num_threads(2)  # several processes share the cores
        row = TASKS[kind](given, method)
        partial = asked.work / f".{asked.one}.partial"
        partial.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        partial.replace(asked.work / f"{asked.one}.json")
        return
    _run_all(asked, time.monotonic())
    _collect(asked.work)


def _run_all(asked: argparse.Namespace, begin: float) -> None:
    tasks = plan(asked.steps, asked.seeds)
    done = {name for name in tasks if (asked.work / f"{name}.json").exists()}
    failed: set[str] = set()
    running: dict[str, subprocess.Popen[bytes]] = {}
    while True:
        late = time.monotonic() - begin > asked.until
        for name, needs in tasks.items():
            ready = all((asked.work / f"{need}.json").exists() for need in needs)
            if name not in done | failed | set(running) and ready and not late and len(running) < asked.jobs:
                running[name] = subprocess.Popen([sys.executable, "-m", "benchmarks.amc", *sys.argv[1:], "--one", name])
        if not running:
            return
        time.sleep(0.2)
        for name in [name for name, process in running.items() if process.poll() is not None]:
            ok = running.pop(name).returncode == 0
            (done if ok else failed).add(name)
            print(f"{time.monotonic() - begin:6.0f} s  {name} {'done' if ok else 'FAILED'}", flush=True)


def _collect(work: Path) -> None:
    rows: dict[str, Any] = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(work.glob("*-[0-9]*.json"))
    }
    if rows:
        write("amc", {"summary": summary(rows), "rows": rows})


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=lambda text: text.split(","), default=list(STEPS))
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--until", type=float, default=300.0)
    parser.add_argument("--network", default="resnet56")
    parser.add_argument("--epochs", type=float, default=120)
    parser.add_argument("--tune-epochs", type=float, default=60)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--limit", type=int, help="so many training samples only, to try the benchmark out")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
