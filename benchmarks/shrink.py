"""Deep Compression measured by its files: the paper's recipe and ours, several seeds, from reference to bytes on disk.

    python -m benchmarks.shrink --data DIR [--networks lenet-300-100,lenet-5] [--seeds 0,1,2] [--jobs 6] [--device cuda]

DIR holds mnist/ and cifar10/. Every network and seed is a process of its own; each writes its row into ``--rows`` when
it is done, and rows that are there are not made again; what a process has done of its row (the reference, stages, the
training it is in) is kept in a folder beside it. So a stopped benchmark goes on. After every row they are put into
``benchmarks/results/shrink.json``, in the place of older ones of the same network and seed. ``mobilenet-v2`` is the
network that is shrunk without data; ``--weights FILE`` is its ImageNet checkpoint. The networks are those of
`benchmarks.shrink_recipes`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from benchmarks.harness import RESULTS, write
from benchmarks.shrink_mobilenet import measure as measure_mobilenet
from benchmarks.shrink_recipes import RECIPES, Recipe
from tightwire import data as workloads
from tightwire import models
from tightwire.compress.artifact import Architecture, Artifact, build, read
from tightwire.compress.artifact import write as write_file
from tightwire.compress.code import CODERS
from tightwire.compress.pipeline import Pipeline, Sets, Shrunk
from tightwire.compress.plan import Plan
from tightwire.compress.prune.masks import prunable
from tightwire.compress.retrain import Training, evaluate, train
from tightwire.compress.share.centroids import Centroids
from tightwire.compress.share.qat import rounded
from tightwire.compress.share.tensors import share
from tightwire.compress.share.uniform import uniform
from tightwire.compress.size import dense_nbytes
from tightwire.compress.work import Work
from tightwire.engines.shrink_file import tensors_of
from tightwire.engines.shrink_source import make_sets

_BITS = (2, 3, 4, 5, 6, 8)
_RETRAINED_BITS = (2, 3, 4)
_TOLD_S = 15.0
_ORDER = [*RECIPES, "mobilenet-v2"]


def one(name: str, seed: int, folder: Path, device: str, work: Path) -> dict[str, Any]:
    """Train the reference, then shrink it by every plan."""
    recipe = RECIPES[name].seeded(seed)
    begin = time.perf_counter()
    data = workloads.load(recipe.data, folder / recipe.data)
    sets = make_sets(data, device=device, decide=False, augment=recipe.augment)
    torch.manual_seed(seed)
    model = models.make(recipe.model, inputs=data.inputs, classes=data.classes, **recipe.options).to(device)
    trained = _reference(model, sets, recipe, work, f"{name}:{seed}")
    row: dict[str, Any] = {
        "network": name, "seed": seed, "dense_nbytes": dense_nbytes(model), "reference_error": _error(model, sets),
        "reference_epochs": recipe.reference.epochs, "reference_s": time.perf_counter() - begin,
    }  # fmt: skip
    architecture = Architecture(recipe.model, data.inputs, data.classes, recipe.options)
    for label, plan in recipe.plans.items():
        model.load_state_dict(trained)
        told = _Progress(f"{name}:{seed} {label}")
        made = Pipeline(model, plan, sets, Work(work / label), told=told).run(f"{name} {seed}")
        row[label] = {**_file(made, sets, architecture, huffman=label == "paper"), **_epochs(plan)}
    if recipe.curve is not None:
        row["bits"] = _bits(model, trained, sets, recipe)
    row["seconds"] = time.perf_counter() - begin
    return row


class _Progress:
    """A line every quarter of a minute."""

    def __init__(self, what: str) -> None:
        self._what, self._begin, self._last_s = what, time.monotonic(), 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        passed_s = time.monotonic() - self._begin
        if passed_s - self._last_s >= _TOLD_S or done == total:
            self._last_s = passed_s
            print(f"{self._what} {stage} {done}/{total} {passed_s:.0f} s", flush=True)


def _reference(model: nn.Module, sets: Sets, recipe: Recipe, work: Path, what: str) -> dict[str, torch.Tensor]:
    """The trained reference, in ``model`` and as a copy; trained unless it was before."""
    work.mkdir(parents=True, exist_ok=True)
    path, told = work / "reference.safetensors", _Progress(what)
    if path.exists():
        model.load_state_dict(load_file(path))
    else:
        train(model, sets.train, recipe.reference, keep=work / "reference.unfinished",
              told=lambda done, total: told("reference", done, total))  # fmt: skip
        save_file({key: value.cpu().contiguous().clone() for key, value in model.state_dict().items()}, path)
    return {key: value.clone() for key, value in model.state_dict().items()}


def _error(model: nn.Module, sets: Sets) -> float:
    return 100 * (1 - evaluate(model, sets.test).accuracy)


def _file(made: Shrunk, sets: Sets, architecture: Architecture, *, huffman: bool) -> dict[str, Any]:
    """The file is written, read, and its network evaluated."""
    coders = (CODERS["huffman"],) if huffman else ()
    content = write_file(Artifact(tensors_of(made.model, made.shared), architecture), coders=coders)
    again = build(read(content)).to(sets.test.x_N.device)
    return {
        "error": _error(again, sets),
        "nbytes": len(content),
        "ratio": dense_nbytes(made.model) / len(content),
        "density": made.stages[-1]["density"],
        "errors_by_stage": {s["stage"]: 100 * (1 - s["test"]["accuracy"]) for s in made.stages},
        "layers": [
            {k: layer[k] for k in ("layer", "density", "centroids", "bits")} for layer in made.stages[-1]["layers"]
        ],
        "seconds": sum(stage["seconds"] for stage in made.stages),
    }


def _epochs(plan: Plan) -> dict[str, float]:
    return {"prune_epochs": plan.retrain.epochs, "polish_epochs": plan.polish.epochs}


def _bits(model: nn.Module, trained: dict[str, torch.Tensor], sets: Sets, recipe: Recipe) -> list[dict[str, Any]]:
    """Error against bits, all weights kept: k-means with 2^b values, and 2^b − 1 equidistant levels; then retrained."""
    assert recipe.curve is not None
    rows = []
    for bits in _BITS:
        row: dict[str, Any] = {"bits": bits}
        for kind in ("kmeans", "uniform"):
            model.load_state_dict(trained)
            shared = {
                name: share(w, 1 << bits) if kind == "kmeans" else uniform(w, bits)
                for name, w in prunable(model).items()
            }
            centroids = Centroids(model, shared)
            row[f"{kind}_error"] = _error(model, sets)
            if bits in _RETRAINED_BITS:
                _retrain(model, trained, kind, bits, centroids, sets, recipe.curve)
                row[f"{kind}_retrained_error"] = _error(model, sets)
        rows.append(row)
    return rows


def _retrain(
    model: nn.Module, trained: dict[str, torch.Tensor], kind: str, bits: int, centroids: Centroids, sets: Sets,
    settings: Training,
) -> None:  # fmt: skip
    """Centroids trained for k-means, training through the levels for uniform ones."""
    if kind == "kmeans":
        train(model, sets.train, settings, constraint=centroids)
        return
    model.load_state_dict(trained)
    with rounded(model, dict.fromkeys(prunable(model), bits)):
        train(model, sets.train, settings)


def main() -> None:
    """Start a process for every row that is missing."""
    asked = _parse()
    if asked.one is not None:
        name, _, seed = asked.one.partition(":")
        torch.backends.cudnn.benchmark = asked.time_kernels
        if name == "mobilenet-v2":
            row = measure_mobilenet(asked.weights, asked.data, asked.device)
        else:
            row = one(name, int(seed), asked.data, asked.device, asked.rows / f"{name}-{seed}")
        how = f"--device {asked.device}{' --time-kernels' * asked.time_kernels}"
        row["command"] = f"python -m benchmarks.shrink --data DIR {how} --one {asked.one}"
        (asked.rows / f"{name}-{seed}.json").write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(asked.rows / f"{name}-{seed}", ignore_errors=True)
        return
    asked.rows.mkdir(parents=True, exist_ok=True)
    wanted = asked.queue or [(name, seed) for name in asked.networks for seed in _seeds(name, asked.seeds)]
    missing = [(n, s) for n, s in wanted if not (asked.rows / f"{n}-{s}.json").exists()]
    running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
    while missing or running:
        while missing and len(running) < asked.jobs:
            name, seed = missing.pop(0)
            running[name, seed] = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.shrink", "--one", f"{name}:{seed}", "--data", str(asked.data),
                 "--device", asked.device, "--rows", str(asked.rows), "--weights", str(asked.weights),
                 *["--time-kernels"] * asked.time_kernels]
            )  # fmt: skip
        time.sleep(0.5)
        for key in [key for key, process in running.items() if process.poll() is not None]:
            print(f"{key[0]} seed {key[1]}: {'done' if running.pop(key).returncode == 0 else 'FAILED'}", flush=True)
            _collect(asked.rows)
    _collect(asked.rows)


def _seeds(name: str, asked: list[int]) -> list[int]:
    return asked if name in RECIPES else [0]


def _queue(text: str) -> list[tuple[str, int]]:
    return [(name, int(seed)) for name, _, seed in (one.partition(":") for one in text.split(","))]


def _collect(rows: Path) -> None:
    """The rows made here, and older ones of other networks and seeds."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(rows.glob("*.json"))]
    if not found:
        return
    path = RESULTS / "shrink.json"
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    made = {(row["network"], row.get("seed")): row for row in [*before, *found]}
    together = [made[key] for key in sorted(made, key=lambda key: (_ORDER.index(key[0]), key[1] or 0))]
    write("shrink", {"rows": together, "means": _means(together)})


def _means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over seeds: what the bars are about."""
    found = []
    for name in dict.fromkeys(row["network"] for row in rows if "seed" in row):
        same = [row for row in rows if row["network"] == name]
        for plan in ("paper", "ours", "smaller"):
            done = [row for row in same if plan in row]
            if done:
                mean = {key: sum(row[plan][key] for row in done) / len(done) for key in ("error", "nbytes", "ratio")}
                reference = sum(row["reference_error"] for row in done) / len(done)
                found.append({"network": name, "plan": plan, "seeds": len(done), "reference_error": reference, **mean})
    return found


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=["lenet-300-100", "lenet-5"])
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--queue", type=_queue, help="instead: vgg16:3,resnet20:3, in this order")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=Path, default=RESULTS / "shrink")
    parser.add_argument("--weights", type=Path, default=Path("mobilenet_v2-b0353104.pth"))
    parser.add_argument("--time-kernels", action="store_true", help="let cuDNN time its kernels and take the fastest")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
