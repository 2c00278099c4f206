"""AMC on a CPU: 400 episodes on LeNet-5, budgets of time and of bytes, and ten toys whose optimum is known.

    python -m benchmarks.amc_cpu --data DIR [--work DIR] [--parts episodes,latency,bytes,toy] [--episodes 400]

DIR holds mnist/. The budget of time is 0.4 of what `cnn` takes here for 16 images (LeNet-5, one image at a time, loses
more than half of its time to what no pruning takes away); what was cut is timed beside the whole in turns. The budget
of bytes is that of the file that `shrink` writes after fine-tuning. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tests.compress.search.toys import toy
from torch import nn

from benchmarks.harness import interleaved, ratio, write
from tightwire import data as workloads
from tightwire import models
from tightwire.compress.retrain import Training, evaluate, train
from tightwire.compress.search import rivals
from tightwire.compress.search.amc import Search
from tightwire.compress.search.apply import cut_by
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Wish
from tightwire.compress.search.ddpg import PAPER, Settings
from tightwire.compress.search.policy import load_policy
from tightwire.compress.search.problem import Tried, best
from tightwire.engines.search import SearchConfig, search_policy
from tightwire.engines.shrink import ShrinkConfig, shrink_to_file
from tightwire.engines.shrink import Wish as ShrinkWish
from tightwire.engines.shrink_source import make_sets

_EPOCHS, _TUNE_EPOCHS = 2.0, 1.0
_TIME = 0.4  # of what the whole network takes
_TIMED, _BATCH, _TIMED_EPISODES, _TIMED_SAMPLES = "cnn", 16, 200, 1000
_TIMED_SEEDS = range(5)


def quiet(*_: Any) -> None:
    """Nobody watches."""


def network(data: Path, work: Path, name: str = "lenet-5") -> tuple[nn.Module, float]:
    """A network, trained a little, kept as a file."""
    loaded = workloads.load("mnist", data / "mnist")
    sets = make_sets(loaded, device="cpu", decide=True)  # what the search decides by was never trained on
    torch.manual_seed(0)
    model = models.make(name, inputs=loaded.inputs, classes=loaded.classes)
    path = work / f"{name}.safetensors"
    if path.exists():
        model.load_state_dict(load_file(path))
    else:
        how = Training(epochs=_EPOCHS, batch=128, optimizer="sgd", lr=0.05, weight_decay=5e-4)
        train(model, sets.train, how, keep=work / f"{name}.unfinished")
        save_file(model.state_dict(), path)
    return model, evaluate(model, sets.test).accuracy


def searched(
    asked: argparse.Namespace, wish: Wish, name: str, methods: tuple[str, ...], *, model: str = "lenet-5",
    episodes: int | None = None, samples: int = 2000, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """One search by the command's own engine."""
    config = SearchConfig(
        asked.work / f"{model}.safetensors", asked.work / f"{name}.json", wish, methods=methods,
        episodes=episodes or asked.episodes, samples=samples, model=model, data="mnist",
        data_folder=str(asked.data / "mnist"), overwrite=True, seed=seed,
    )  # fmt: skip
    begin = time.perf_counter()
    result = search_policy(config, watch=quiet)
    methods_row = {
        method: {key: row[key] for key in ("error", "cost", "evaluations", "seconds")}
        for method, row in result["methods"].items()
    }
    return {
        "network": model, "budget": str(wish.budget), "prune": wish.prune, "episodes": config.episodes,
        "samples": result["settings"]["samples"], "seconds": time.perf_counter() - begin, "methods": methods_row,
        "test_accuracy": result["test_accuracy"],
        "layers": [{key: row[key] for key in ("layer", "ratio", "kept", "of")} for row in result["layers"]],
        "settings": result["settings"],
    }  # fmt: skip


def episodes(asked: argparse.Namespace) -> dict[str, Any]:
    """A third of the multiply-adds by channels, every method; how long 400 episodes take."""
    return searched(asked, Wish(parse_budget("flops=0.3")), "episodes", ("amc", "uniform", "sensitivity", "evolution"))


def latency(asked: argparse.Namespace) -> dict[str, Any]:
    """Two fifths of the time that the whole network takes, searched a few times."""
    return {"batch": _BATCH, "searches": [_timed(asked, seed) for seed in _TIMED_SEEDS]}


def _timed(asked: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One search; what was found is timed again, in turns with the whole network."""
    model, _ = network(asked.data, asked.work, _TIMED)
    wish = Wish(parse_budget(f"latency={_TIME}"), batch=_BATCH)
    row = searched(asked, wish, f"latency-{seed}", ("amc",), model=_TIMED, episodes=_TIMED_EPISODES,
                   samples=_TIMED_SAMPLES, seed=seed)  # fmt: skip
    x = make_sets(workloads.load("mnist", asked.data / "mnist"), device="cpu", decide=True).test.x_N[:_BATCH]
    cut = cut_by(load_policy(asked.work / f"latency-{seed}.json"), model, x[:1], None).eval()
    model.eval()
    with torch.inference_mode():
        seconds = interleaved({"whole": lambda: model(x), "cut": lambda: cut(x)}, rounds=200, steps=20)
    timed, found = row["settings"]["latency"], ratio(seconds, "cut", "whole")
    return row | {
        "seed": seed, "microseconds": {name: 1e6 * float(np.median(some)) for name, some in seconds.items()},
        "cut_over_whole": found, "of_budget": timed["measured_ns"] / timed["budget_ns"],
        "budget_us": timed["budget_ns"] / 1e3, "again_of_budget": found["median"] / _TIME,
    }  # fmt: skip


def file_bytes(asked: argparse.Namespace) -> dict[str, Any]:
    """A hundredth of the dense bytes: the file that is written, fine-tuned, and its accuracy."""
    row = searched(asked, Wish(parse_budget("bytes=17kB"), "weights"), "bytes", ("amc", "uniform"))
    out = asked.work / "bytes.twz"
    plan = ShrinkWish(epochs=_TUNE_EPOCHS, polish_epochs=0.5).plan()
    config = ShrinkConfig(
        asked.work / "lenet-5.safetensors", out, plan, model="lenet-5", data="mnist",
        data_folder=str(asked.data / "mnist"), policy=asked.work / "bytes.json",
    )  # fmt: skip
    result = shrink_to_file(config, told=lambda stage, done, total: None)
    return row | {"file_nbytes": out.stat().st_size, "file_accuracy": result["test_accuracy"],
                  "reference_accuracy": result["reference_accuracy"], "ratio": result["ratio"]}  # fmt: skip


def toys(asked: argparse.Namespace) -> dict[str, Any]:
    """Accuracy over the optimum's, ten seeds: our settings, the paper's, the rivals. Goes on where it was stopped."""
    path, begin = asked.work / "part-toy.json", time.perf_counter()
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    for seed in range(len(rows), 10):
        if time.perf_counter() - begin > asked.until:
            break
        problem, optimum = toy(seed)
        row: dict[str, Any] = {"seed": seed, "optimum": optimum}
        for name, settings in (("amc", Settings()), ("amc, the paper's settings", PAPER)):
            row[name] = (1 - best(Search(problem, settings=settings, seed=seed).run(asked.episodes)).error) / optimum
        for name in ("uniform", "sensitivity", "evolution"):
            tried: list[Tried] = getattr(rivals, name)(problem, asked.episodes, told=quiet, seed=seed)
            row[name] = (1 - best(tried).error) / optimum
        rows.append(row)
    return {"episodes": asked.episodes, "rows": rows}


PARTS = {"episodes": episodes, "latency": latency, "bytes": file_bytes, "toy": toys}


def main() -> None:
    """Measure the parts that are asked for; those that are there already stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/amc-cpu"))
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--until", type=float, default=600.0, help="seconds after which no further toy is begun")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    _, accuracy = network(asked.data, asked.work)
    for part in asked.parts:
        row = PARTS[part](asked)
        (asked.work / f"part-{part}.json").write_text(json.dumps(row, indent=1), encoding="utf-8")
        print(f"{part} done", flush=True)
    found = {part: asked.work / f"part-{part}.json" for part in PARTS}
    rows = {part: json.loads(path.read_text(encoding="utf-8")) for part, path in found.items() if path.exists()}
    command = f"python -m benchmarks.amc_cpu --data DIR --episodes {asked.episodes}"
    write(
        "amc_cpu",
        {
            "command": command,
            "network": "lenet-5",
            "threads": torch.get_num_threads(),
            "test_accuracy": accuracy,
            **rows,
        },
    )


if __name__ == "__main__":
    main()
