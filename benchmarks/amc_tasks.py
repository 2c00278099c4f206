"""The tasks of `benchmarks.amc`: each reads what it needs from the work folder and returns one row."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tightwire import data as workloads
from tightwire import models
from tightwire.compress.augment import crop_flip
from tightwire.compress.prune.gradual import Gradual, Target
from tightwire.compress.prune.masks import prunable
from tightwire.compress.prune.schedules import one_shot
from tightwire.compress.retrain import Examples, Training, evaluate, train
from tightwire.compress.search import rivals
from tightwire.compress.search.amc import Search
from tightwire.compress.search.budget import Budget
from tightwire.compress.search.build import Built, Wish, build
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.problem import Problem, Tried, best
from tightwire.engines.shrink_source import make_sets

HALF, FIFTH = 0.5, 0.2
ROUNDS = (0.5, 0.35, 0.25, 0.2)
_ROUND_EPOCHS = 6.0


@dataclass(frozen=True)
class Asked:
    """What the command line said."""

    data: Path
    device: str
    work: Path
    seed: int
    epochs: float
    tune_epochs: float
    episodes: int
    samples: int
    limit: int | None
    network: str


@dataclass(frozen=True, eq=False)
class Ready:
    """Data on the device: all training samples, those to decide by (seen in training, as in AMC), the test set."""

    train: Examples
    held: Examples
    test: Examples


def ready(asked: Asked) -> Ready:
    """Another seed decides by other training samples."""
    sets = make_sets(workloads.load("cifar10", asked.data / "cifar10"), device=asked.device, decide=False)
    x_N, y_N = sets.train.x_N[: asked.limit], sets.train.y_N[: asked.limit]
    order = torch.randperm(len(y_N), generator=torch.Generator().manual_seed(1000 + asked.seed)).to(y_N.device)
    x_N, y_N = x_N[order], y_N[order]
    test = sets.test if asked.limit is None else Examples(sets.test.x_N[: asked.limit], sets.test.y_N[: asked.limit])
    return Ready(Examples(x_N, y_N, crop_flip), Examples(x_N[: asked.samples], y_N[: asked.samples]), test)


def settings(asked: Asked, epochs: float, lr: float, *, soft: float = 0.0) -> Training:
    """SGD as for the reference."""
    precision = "bfloat16" if asked.device == "cuda" else "float32"
    return Training(epochs=epochs, batch=512, optimizer="sgd", lr=lr, weight_decay=5e-4, soft=soft,
                    precision=precision, seed=asked.seed)  # fmt: skip


def make(name: str, asked: Asked) -> nn.Module:
    """The network, untrained."""
    torch.manual_seed(asked.seed)
    return models.make(name, inputs=(3, 32, 32), classes=10).to(asked.device)


def reference(asked: Asked, method: str, *, name: str | None = None, label: str = "reference") -> dict[str, Any]:
    """Train a network, keep its weights."""
    begin, data = time.perf_counter(), ready(asked)
    name = name or asked.network
    model = make(name, asked)
    epochs = asked.epochs if label == "reference" else asked.epochs / 3
    train(model, data.train, settings(asked, epochs, 0.2 if label == "reference" else 0.1))
    state = {key: tensor.cpu().contiguous() for key, tensor in model.state_dict().items()}
    save_file(state, asked.work / f"{label}-{asked.seed}.safetensors")
    return {"network": name, "epochs": epochs, "test_accuracy": evaluate(model, data.test).accuracy,
            "train_accuracy": evaluate(model, data.held).accuracy, "seconds": time.perf_counter() - begin}  # fmt: skip


def bottleneck(asked: Asked, method: str) -> dict[str, Any]:
    """ResNet-50 with a small stem, a third of the epochs."""
    return reference(asked, method, name="resnet50", label="bottleneck")


def trained(asked: Asked, label: str = "reference", name: str | None = None) -> nn.Module:
    """The reference again."""
    model = make(name or asked.network, asked)
    model.load_state_dict(load_file(asked.work / f"{label}-0.safetensors"))
    return model.eval()


def quiet(number: int, tried: Tried) -> None:
    """Nobody watches."""


def searched(method: str, problem: Problem, asked: Asked) -> tuple[Tried, list[Tried], float]:
    """The best policy, all that were tried, and seconds."""
    begin = time.perf_counter()
    if method == "amc":
        tried = Search(problem, seed=asked.seed).run(asked.episodes)
    else:
        tried = getattr(rivals, method)(problem, asked.episodes, told=quiet, seed=asked.seed)
    return best(tried), tried, time.perf_counter() - begin


def search(asked: Asked, method: str) -> dict[str, Any]:
    """Half the multiply-adds by channels, by every method; test accuracy with nothing retrained."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    built = build(model, Examples(data.train.x_N, data.train.y_N), data.held, Wish(Budget("flops", share=HALF)))
    row: dict[str, Any] = {"seed": asked.seed, "built_s": time.perf_counter() - begin, "methods": {}}
    for name in ("amc", "uniform", "sensitivity", "evolution"):
        problem = Problem(
            built.problem.units, built.problem.clip, built.problem.scorer
        )  # nobody gains by others' scores
        found, tried, seconds = searched(name, problem, asked)
        row["methods"][name] = {
            **_figures(built, found), "test_accuracy": _test(model, built, found, data.test), "seconds": seconds,
            "evaluations": asked.episodes if name != "uniform" else 1,
            "rewards": [round(one.reward, 5) for one in tried][:: max(1, len(tried) // 100)],
        }  # fmt: skip
    row["reference_accuracy"] = evaluate(model, data.test).accuracy
    row["seconds"] = time.perf_counter() - begin
    return row


def _figures(built: Built, found: Tried) -> dict[str, Any]:
    costs = {kind: float(cost.total(np.array([found.levels]))[0] / cost.most) for kind, cost in built.costs.items()}
    choices = built.problem.choices(found.levels)
    return {
        "levels": list(found.levels), "held_accuracy": 1 - found.error, "share": costs,
        "layers": [{"layer": unit.name, "k": unit.shape.k, "n": unit.shape.n, "ratio": choice.ratio}
                   for unit, choice in zip(built.problem.units, choices, strict=True)],
    }  # fmt: skip


@torch.no_grad()
def _test(model: nn.Module, built: Built, found: Tried, test: Examples) -> float:
    twin = deepcopy(model)
    state = twin.state_dict()
    for name, tensor in built.scorer.version(found.levels).items():
        state[name].copy_(tensor)
    return evaluate(twin, test).accuracy


def _row(asked: Asked, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((asked.work / f"{name}-{asked.seed}.json").read_text(encoding="utf-8"))
    return found


def tune(asked: Asked, method: str) -> dict[str, Any]:
    """Cut what a method decided, and fine-tune what is left."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    plain = Examples(data.train.x_N, data.train.y_N)
    built = build(model, plain, data.held, Wish(Budget("flops", share=HALF)))
    assert isinstance(built.scorer, Channels)
    cut = built.scorer.cut(_row(asked, "search")["methods"][method]["levels"], built.example)
    before = evaluate(cut, data.test).accuracy
    train(cut, data.train, settings(asked, asked.tune_epochs, 0.1, soft=0.5), teacher=model)
    return {"seed": asked.seed, "method": method, "before": before, "test_accuracy": evaluate(cut, data.test).accuracy,
            "reference_accuracy": evaluate(model, data.test).accuracy,
            "parameters": sum(p.numel() for p in cut.parameters()), "epochs": asked.tune_epochs,
            "seconds": time.perf_counter() - begin}  # fmt: skip


def fine(asked: Asked, method: str) -> dict[str, Any]:
    """Single weights to a fifth: AMC in rounds with training in between; uniform has the same density everywhere."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    teacher, rounds = deepcopy(model), []
    plain = Examples(data.train.x_N, data.train.y_N)
    for number, share in enumerate(ROUNDS):
        built = build(model, plain, data.held, Wish(Budget("params", share=share), "weights", least=0.05))
        found, _, seconds = searched("amc", built.problem, asked)
        rounds.append({"density": share, "seconds": seconds, **_figures(built, found)})
        if number + 1 < len(ROUNDS):
            _hold(model, rounds[-1]["layers"], data, settings(asked, _ROUND_EPOCHS, 0.05, soft=0.5), teacher)
    built = build(teacher, plain, data.held, Wish(Budget("params", share=FIFTH), "weights", least=0.05))
    (even,) = rivals.uniform(built.problem, 1, told=quiet)
    return {
        "seed": asked.seed, "rounds": rounds, "amc": rounds[-1]["layers"], "uniform": _figures(built, even)["layers"],
        "before": {"amc": rounds[-1]["held_accuracy"], "uniform": 1 - even.error},
        "seconds": time.perf_counter() - begin,
    }  # fmt: skip


def _hold(model: nn.Module, layers: list[dict[str, Any]], data: Ready, how: Training, teacher: nn.Module) -> None:
    target = Target({row["layer"]: row["ratio"] for row in layers}, "layer", one_shot())
    train(model, data.train, how, constraint=Gradual(model, target, until=0.0), teacher=teacher)


def fine_train(asked: Asked, method: str) -> dict[str, Any]:
    """Prune along a schedule to a method's densities while training, then train on with masks held."""
    if not method:
        return fine(asked, method)
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    layers = _row(asked, "fine")[method]
    target = Target({row["layer"]: row["ratio"] for row in layers}, "layer")
    held = Gradual(model, target, until=0.5)
    train(model, data.train, settings(asked, asked.tune_epochs, 0.1, soft=0.5), constraint=held, teacher=trained(asked))
    weights = prunable(model)
    kept = sum(int((weight != 0).sum()) for weight in weights.values())
    return {"seed": asked.seed, "method": method, "test_accuracy": evaluate(model, data.test).accuracy,
            "reference_accuracy": evaluate(trained(asked), data.test).accuracy,
            "fewer_weights": sum(weight.numel() for weight in weights.values()) / kept, "epochs": asked.tune_epochs,
            "seconds": time.perf_counter() - begin}  # fmt: skip


def pattern(asked: Asked, method: str) -> dict[str, Any]:
    """A fifth of a bottleneck network's weights by AMC: the density of 3×3 and of 1×1 layers."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked, "bottleneck", "resnet50")
    plain = Examples(data.train.x_N, data.train.y_N)
    built = build(model, plain, data.held, Wish(Budget("params", share=FIFTH), "weights", least=0.05))
    found, _, seconds = searched("amc", built.problem, asked)
    layers = _figures(built, found)["layers"]
    (even,) = rivals.uniform(built.problem, 1, told=quiet)
    return {"seed": asked.seed, "layers": layers, "held_accuracy": 1 - found.error, "uniform_accuracy": 1 - even.error,
            "share": _figures(built, found)["share"], "mean_density": {f"{k}x{k}": _mean(layers, k) for k in (1, 3)},
            "weighted_density": {f"{k}x{k}": _weighted(model, layers, k) for k in (1, 3)},
            "search_s": seconds, "seconds": time.perf_counter() - begin}  # fmt: skip


def _within(layers: list[dict[str, Any]], k: int) -> list[dict[str, Any]]:
    """Layers of a kernel's side; the stem and the classifier are neither."""
    return [row for row in layers[1:-1] if row["k"] == k]


def _mean(layers: list[dict[str, Any]], k: int) -> float:
    return float(np.mean([row["ratio"] for row in _within(layers, k)]))


def _weighted(model: nn.Module, layers: list[dict[str, Any]], k: int) -> float:
    sizes: dict[str, Tensor] = dict(model.named_parameters())
    some = [(row["ratio"], sizes[row["layer"]].numel()) for row in _within(layers, k)]
    return sum(ratio * size for ratio, size in some) / sum(size for _, size in some)


TASKS: dict[str, Callable[[Asked, str], dict[str, Any]]] = {
    "reference": reference, "bottleneck": bottleneck, "search": search, "tune": tune, "fine": fine_train,
    "pattern": pattern,
}  # fmt: skip
