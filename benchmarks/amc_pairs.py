"""AMC beside uniform by the commands themselves, on a CPU: search, then `shrink --policy` fine-tunes and writes a file.

    python -m benchmarks.amc_pairs --data DIR --work DIR [--seeds 3] [--episodes 400] [--epochs 5]

LeNet-5 on Fashion-MNIST (DIR/fashion-mnist): three tenths of its multiply-adds by channels, and three hundredths of its
weights. Both methods have the same budget, seed and training. Rows that are in WORK are not made again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.harness import write
from tightwire import data as workloads
from tightwire import models
from tightwire.compress.retrain import Training, evaluate, train
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Wish
from tightwire.engines.search import SearchConfig, search_policy
from tightwire.engines.shrink import ShrinkConfig, shrink_to_file
from tightwire.engines.shrink import Wish as ShrinkWish
from tightwire.engines.shrink_source import make_sets

DATA, NETWORK = "fashion-mnist", "lenet-5"
_BUDGETS: dict[str, Wish] = {
    "channels": Wish(parse_budget("flops=0.3")),
    "weights": Wish(parse_budget("params=0.03"), "weights", least=0.005),
}
_METHODS = ("amc", "uniform")
_REFERENCE_EPOCHS = 15.0


def quiet(*_: Any) -> None:
    """Nobody watches."""


def reference(asked: argparse.Namespace) -> Path:
    """The network that is pruned, trained once. What searches decide by it has not seen."""
    path: Path = asked.work / f"{NETWORK}.safetensors"
    if not path.exists():
        loaded = workloads.load(DATA, asked.data / DATA)
        sets = make_sets(loaded, device="cpu", decide=True)
        torch.manual_seed(0)
        model = models.make(NETWORK, inputs=loaded.inputs, classes=loaded.classes)
        how = Training(epochs=_REFERENCE_EPOCHS, batch=128, optimizer="sgd", lr=0.05, weight_decay=5e-4)
        train(model, sets.train, how, keep=asked.work / "reference.unfinished")
        print(f"reference: {100 * evaluate(model, sets.test).accuracy:.2f}%", flush=True)
        save_file(model.state_dict(), path)
    return path


def pair(asked: argparse.Namespace, kind: str, method: str, seed: int) -> dict[str, Any]:
    """One search and what comes of it."""
    weights, name = reference(asked), f"{kind}-{method}-{seed}"
    common: dict[str, Any] = {"model": NETWORK, "data": DATA, "data_folder": str(asked.data / DATA)}
    policy = asked.work / f"{name}.policy.json"
    searched = search_policy(
        SearchConfig(weights, policy, _BUDGETS[kind], methods=(method,), episodes=asked.episodes, seed=seed,
                     samples=asked.samples, overwrite=True, **common),
        watch=quiet,
    )  # fmt: skip
    plan = ShrinkWish(bits=5, epochs=asked.epochs, polish_epochs=1.0, seed=seed).plan()
    config = ShrinkConfig(weights, asked.work / f"{name}.twz", plan, policy=policy, overwrite=True, **common)
    made = shrink_to_file(config, told=quiet)
    return {"prune": kind, "budget": searched["budget"], "method": method, "seed": seed,
            "not_retrained": searched["test_accuracy"]["pruned"], "test_accuracy": made["test_accuracy"],
            "reference_accuracy": made["reference_accuracy"], "nbytes": made["nbytes"], "ratio": made["ratio"],
            "share": searched["cost"] / searched["whole"]}  # fmt: skip


def main() -> None:
    """Make the rows that are missing, then write all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--epochs", type=float, default=5.0)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in range(asked.seeds):
        for kind in _BUDGETS:
            for method in _METHODS:
                path = asked.work / f"{kind}-{method}-{seed}.row.json"
                if not path.exists():
                    path.write_text(json.dumps(pair(asked, kind, method, seed)), encoding="utf-8")
                    print(path.read_text(encoding="utf-8"), flush=True)
                rows.append(json.loads(path.read_text(encoding="utf-8")))
    settings = {key: vars(asked)[key] for key in ("seeds", "episodes", "samples", "epochs")}
    said = " ".join(f"--{key} {value}" for key, value in settings.items())
    command = f"python -m benchmarks.amc_pairs --data DIR --work DIR {said}"
    write("amc_pairs", {"command": command, "network": NETWORK, "data": DATA, **settings, "rows": rows})


if __name__ == "__main__":
    main()
