"""AMC measured on CIFAR-10: against uniform, sensitivity and evolution, before and after fine-tuning; what it prunes.

    python -m benchmarks.amc --data DIR --work DIR [--device cuda] [--steps reference,search,tune,densities,fine,…]
                             [--jobs 6] [--seeds 0,1,2,3,4] [--fine-seeds 0] [--until 600]

    reference   ResNet-56 is trained                    search    half the multiply-adds by channels, five methods
    tune        what AMC and uniform cut, fine-tuned
    densities   of single weights, --percent in all      fine        by AMC and by uniform, trained
    whole       the reference trained on for as long, nothing pruned
    pattern     bottleneck blocks: are 3×3 layers pruned more than 1×1?      paper   the paper's agent alone

DIR holds cifar10/. Every task is a process of its own, ``--jobs`` at a time, and writes its row into WORK when it is
done; rows that are there are not made again, and a task that was cut goes on where it was. After ``--until`` seconds no
task is started any more. All rows so far are put together in ``benchmarks/results/amc.json`` after every one; with
``--collect`` on any machine: WORK remembers which one made them.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from benchmarks.amc_ground import Asked
from benchmarks.amc_summary import LUCKIEST, WHOLE, starting, summary
from benchmarks.amc_tasks import TASKS
from benchmarks.harness import RESULTS, origin, write

STEPS = ("reference", "search", "tune", "densities", "fine", "whole", "pattern", "paper")
PAIR = ("amc", "uniform")
NETWORK = "resnet56"  # of amc.json; others have files of their own


def plan(
    steps: list[str],
    seeds: list[int],
    fine_seeds: list[int],
    arms: Sequence[str] = PAIR,
    fine_arms: Sequence[str] = PAIR,
    percents: Sequence[int] = (20,),
) -> dict[str, list[str]]:
    """Every task, the most wanted first, and the rows it needs.

    >>> plan(["reference", "search"], [0, 1], [0])
    {'reference-0': [], 'search-0': ['reference-0'], 'search-1': ['reference-0']}
    """
    tasks: dict[str, list[str]] = {}
    if "reference" in steps:
        tasks["reference-0"] = []
    if "densities" in steps:
        tasks |= {f"densities.{p}-{seed}": ["reference-0"] for seed in fine_seeds for p in percents}
    if "search" in steps:
        tasks |= {f"search-{seed}": ["reference-0"] for seed in seeds}
    if "tune" in steps:
        tasks |= {f"tune.{m}-{seed}": [f"search-{seed}"] for seed in seeds for m in arms}
    if "fine" in steps:
        tasks |= {f"fine.{m}.{p}-{s}": [f"densities.{p}-{s}"] for s in fine_seeds for p in percents for m in fine_arms}
    if "whole" in steps:
        tasks |= {f"whole-{seed}": ["reference-0"] for seed in fine_seeds}
    if "pattern" in steps:
        tasks["bottleneck-0"] = ["reference-0"] if "reference" in steps else []  # much waits for the reference
        tasks |= {f"pattern-{seed}": ["bottleneck-0"] for seed in seeds[:3]}
    if "paper" in steps:
        tasks |= {f"paper-{seed}": ["reference-0"] for seed in seeds[:2]}
    return tasks


def main() -> None:
    """Run the tasks that are missing, several at a time."""
    asked = _parse()
    asked.work.mkdir(parents=True, exist_ok=True)
    if asked.one is not None:
        _one(asked)
    elif not asked.collect:
        _origin(asked).write_text(json.dumps(origin()), encoding="utf-8")
        failed = _run_all(asked, time.monotonic())
        sys.exit(f"failed: {', '.join(sorted(failed))}" if failed else 0)
    else:
        _collect(asked)


def _origin(asked: argparse.Namespace) -> Path:
    """Where rows were made: they may be put together on another machine."""
    path: Path = asked.work / "origin.json"
    return path


def _one(asked: argparse.Namespace) -> None:
    """One task; should another process be at it, its row is waited for."""
    path = asked.work / f"{asked.one}.json"
    with (asked.work / f".{asked.one}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return
        torch.set_num_threads(1 if asked.device == "cuda" else max(1, len(os.sched_getaffinity(0)) // asked.jobs))
        torch.backends.cudnn.benchmark = asked.time_kernels
        name, _, seed = asked.one.partition("-")
        kind, _, method = name.partition(".")
        given = {key: vars(asked)[key] for key in Asked.__dataclass_fields__ if key != "seed"}
        row = TASKS[kind](Asked(seed=int(seed), **given), method)
        partial = asked.work / f".{asked.one}.partial"
        partial.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)


def _run_all(asked: argparse.Namespace, begin: float) -> set[str]:
    tasks = plan(asked.steps, asked.seeds, asked.fine_seeds, asked.arms, asked.fine_arms, asked.percent)
    done = {name for name in tasks if (asked.work / f"{name}.json").exists()}
    failed: set[str] = set()
    running: dict[str, subprocess.Popen[bytes]] = {}
    _collect(asked)
    while True:
        late = time.monotonic() - begin > asked.until
        for name, needs in tasks.items():
            ready = all((asked.work / f"{need}.json").exists() for need in needs)
            if name not in done | failed | set(running) and ready and not late and len(running) < asked.jobs:
                running[name] = subprocess.Popen([sys.executable, "-m", "benchmarks.amc", *sys.argv[1:], "--one", name])
        if not running:
            return failed
        time.sleep(0.2)
        for name in [name for name, process in running.items() if process.poll() is not None]:
            ok = running.pop(name).returncode == 0
            (done if ok else failed).add(name)
            print(f"{time.monotonic() - begin:6.0f} s  {name} {'done' if ok else 'FAILED'}", flush=True)
            _collect(asked)


def _collect(asked: argparse.Namespace) -> None:
    rows: dict[str, Any] = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(asked.work.glob("*-[0-9]*.json"))
    }
    if rows:
        folder = RESULTS if asked.limit is None else asked.work
        with redirect_stdout(StringIO()):  # it is long, and made after every row
            parts = (asked.network * (asked.network != NETWORK), str(asked.side) * (asked.side != WHOLE), asked.suffix)
            variant = "".join(f"_{part}" for part in parts if part)
            said = {"command": _command(asked, rows), "network": asked.network, "side": asked.side}
            if _origin(asked).exists():
                said |= json.loads(_origin(asked).read_text(encoding="utf-8"))
            write("amc", {**said, "summary": summary(rows), "rows": rows}, variant, folder=folder)


def _command(asked: argparse.Namespace, rows: dict[str, Any]) -> str:
    """What makes all rows, whichever steps and seeds each call was asked for."""
    words = ("device", "network", "epochs", "rate", "decay", "bottleneck_epochs", "tune_epochs", "tune_rate",
             "tune_decay", "fine_epochs", "fine_decay", "fine_rate", "soft", "episodes", "samples", "multiple_of",
             "least", "side", "batch", "tune_batch", "precision", "suffix")  # fmt: skip
    given = {word.replace("_", "-"): vars(asked)[word] for word in words} | _repeated(rows)
    said = " ".join(f"--{word} {value}" for word, value in given.items() if value not in (None, ""))
    flags = " --time-kernels" * asked.time_kernels + " --compiled" * asked.compiled
    return f"python -m benchmarks.amc --data DIR --work DIR {said}{flags}"


def _repeated(rows: dict[str, Any]) -> dict[str, str]:
    """The shares and the seeds of single weights.

    >>> _repeated({"densities.20-0": {"seed": 0, "density": 0.2}, "densities.20-1": {"seed": 1, "density": 0.2}})
    {'percent': '20', 'fine-seeds': '0,1'}
    """
    some = starting(rows, "densities.")
    found = {
        "percent": sorted({round(100 * row["density"]) for row in some}, reverse=True),
        "fine-seeds": sorted({row["seed"] for row in some}),
    }
    return {word: ",".join(map(str, numbers)) for word, numbers in found.items()}


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=lambda text: text.split(","), default=list(STEPS))
    parser.add_argument("--seeds", type=_numbers, default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", type=lambda text: text.split(","), default=PAIR, help=f"to tune; also {LUCKIEST}")
    parser.add_argument("--fine-arms", type=lambda text: text.split(","), default=PAIR, help="also threshold")
    parser.add_argument("--percent", type=_numbers, default=[20], help="of single weights that are left: 20,12")
    parser.add_argument("--fine-seeds", type=_numbers, default=[0])
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--until", type=float, default=600.0)
    parser.add_argument("--network", default=NETWORK)
    parser.add_argument("--epochs", type=float, default=120)
    parser.add_argument("--rate", type=float, default=0.2, help="learning rate of the references")
    parser.add_argument("--decay", type=float, default=1e-3, help="weight decay of the references")
    parser.add_argument("--bottleneck-epochs", type=float, default=40)
    parser.add_argument("--tune-epochs", type=float, default=40)
    parser.add_argument("--tune-rate", type=float, default=0.2, help="learning rate of what was cut")
    parser.add_argument("--tune-decay", type=float, default=1e-3, help="weight decay of what was cut")
    parser.add_argument("--soft", type=float, default=0.7, help="share of the reference's answers in what is learned")
    parser.add_argument("--fine-epochs", type=float, default=200, help="of training with single weights pruned")
    parser.add_argument("--fine-decay", type=float, default=1e-3, help="weight decay in it")
    parser.add_argument("--fine-rate", type=float, default=0.2, help="learning rate in it")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--samples", type=int, default=5000, help="training samples to decide by")
    parser.add_argument("--multiple-of", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.2, help="smallest share of its channels that a layer keeps")
    parser.add_argument("--side", type=int, default=WHOLE, help="of the images; 16 is a quarter of the work")
    parser.add_argument("--batch", type=int, default=512, help="samples of a training step")
    parser.add_argument("--tune-batch", type=int, help="samples of a step after pruning, if another number")
    parser.add_argument(
        "--precision", choices=("bfloat16", "float32"), help="of training; on a GPU bfloat16 if not said"
    )
    parser.add_argument("--compiled", action="store_true", help="torch.compile trains; on a GPU unasked")
    parser.add_argument("--suffix", default="", help="what the results' file is called besides")
    parser.add_argument("--limit", type=int, help="so many samples only, to try the benchmark out")
    parser.add_argument("--time-kernels", action="store_true", help="let cuDNN time its kernels and take the fastest")
    parser.add_argument("--collect", action="store_true", help="only put together the rows that are there")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
