"""The tasks of `benchmarks.amc`: each reads what it needs from the work folder and returns one row."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from benchmarks.amc_fine import FIFTH, densities, fine, whole
from benchmarks.amc_ground import (
    Asked,
    Ready,
    figures,
    learning,
    make,
    ready,
    relearning,
    save,
    searched,
    trained,
    untrained,
)
from benchmarks.amc_spare import train_with_spare
from benchmarks.amc_summary import LUCKIEST, METHODS
from tightwire.compress.retrain import Constraint, evaluate, train
from tightwire.compress.search.budget import Budget
from tightwire.compress.search.build import Built, Wish, build
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.problem import best

HALF = 0.5
_PATTERN_SAMPLES = 2000
_PATTERN = ("amc", "amc-paper", "threshold", "evolution", "uniform")


def reference(asked: Asked, method: str) -> dict[str, Any]:
    """The network that is pruned."""
    return _reference(asked, "reference", asked.epochs)


def bottleneck(asked: Asked, method: str) -> dict[str, Any]:
    """As many layers in bottleneck blocks."""
    return _reference(asked, "bottleneck", asked.bottleneck_epochs)


def _reference(asked: Asked, label: str, epochs: float) -> dict[str, Any]:
    begin, data = time.perf_counter(), ready(asked)
    model = make(label, asked)
    train(model, data.train, learning(asked, epochs), keep=asked.kept(label))
    save(model, asked.work / f"{label}-{asked.seed}.safetensors")
    return {"network": asked.network, "epochs": epochs, "test_accuracy": evaluate(model, data.test).accuracy,
            "train_accuracy": evaluate(model, data.held).accuracy, "seconds": time.perf_counter() - begin}  # fmt: skip


def search(asked: Asked, method: str) -> dict[str, Any]:
    """Half the multiply-adds by channels, by every method for the first seed, by those that are compared for all."""
    return _search(asked, METHODS if asked.seed == 0 else METHODS[:3])


def paper(asked: Asked, method: str) -> dict[str, Any]:
    """The same by the paper's agent alone."""
    return _search(asked, ("amc-paper",))


def _search(asked: Asked, methods: tuple[str, ...]) -> dict[str, Any]:
    """Search; test accuracy with nothing retrained."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    built = _halved(model, data, asked)
    row: dict[str, Any] = {"seed": asked.seed, "built_s": time.perf_counter() - begin, "methods": {}}
    for name in methods:
        found, how = searched(name, built.problem, asked, "search", asked.episodes)
        taken = {name: found, LUCKIEST: best(how.tried)} if name == "amc" else {name: found}
        row["methods"] |= {
            word: {
                **figures(built, one), "test_accuracy": untrained(model, built, one, data.test), "seconds": how.seconds,
                "evaluations": how.evaluations,
                "rewards": [round(tried.reward, 5) for tried in how.tried][:: max(1, len(how.tried) // 100)],
            }
            for word, one in taken.items()
        }  # fmt: skip
    row["reference_accuracy"] = evaluate(model, data.test).accuracy
    row["seconds"] = time.perf_counter() - begin
    return row


def _halved(model: nn.Module, data: Ready, asked: Asked) -> Built:
    wish = Wish(Budget("flops", share=HALF), multiple_of=asked.multiple_of, least=asked.least)
    return build(model, data.plain, data.held, wish)


def tune(asked: Asked, method: str) -> dict[str, Any]:
    """Cut what a method decided, and fine-tune what is left."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    built = _halved(model, data, asked)
    assert isinstance(built.scorer, Channels)
    levels = asked.row("search")["methods"][method]["levels"]
    before = evaluate(built.scorer.cut(levels, built.example), data.test).accuracy

    def trained_on(cut: nn.Module, held: Constraint) -> None:
        how = relearning(asked, asked.tune_epochs, asked.tune_rate, asked.tune_decay)
        train(cut, data.train, how, constraint=held, teacher=model, keep=asked.kept(f"tune.{method}"))

    cut = train_with_spare(built.scorer, levels, built.example, trained_on)
    return {"seed": asked.seed, "method": method, "before": before, "test_accuracy": evaluate(cut, data.test).accuracy,
            "reference_accuracy": evaluate(model, data.test).accuracy,
            "parameters": sum(p.numel() for p in cut.parameters()), "epochs": asked.tune_epochs,
            "rate": asked.tune_rate, "decay": asked.tune_decay, "soft": asked.soft,
            "batch": asked.tune_batch or asked.batch, "seconds": time.perf_counter() - begin}  # fmt: skip


def pattern(asked: Asked, method: str) -> dict[str, Any]:
    """A fifth of a bottleneck network's weights, by five methods: the density of 3×3 and of 1×1 layers."""
    asked = replace(asked, samples=min(asked.samples, _PATTERN_SAMPLES))
    begin, data, model = time.perf_counter(), ready(asked), trained(asked, "bottleneck")
    built = build(model, data.plain, data.held, Wish(Budget("params", share=FIFTH), "weights", least=0.05))
    row: dict[str, Any] = {"seed": asked.seed, "evaluations": asked.episodes, "methods": {}}
    for name in _PATTERN:
        found, how = searched(name, built.problem, asked, "pattern", row["evaluations"])
        made = figures(built, found)
        row["methods"][name] = {
            "held_accuracy": 1 - found.error, "test_accuracy": untrained(model, built, found, data.test),
            "layers": made["layers"], "share": made["share"], "seconds": how.seconds,
            "mean_density": {f"{k}x{k}": _mean(made["layers"], k) for k in (1, 3)},
            "weighted_density": {f"{k}x{k}": _weighted(model, made["layers"], k) for k in (1, 3)},
        }  # fmt: skip
    return row | {"seconds": time.perf_counter() - begin}


def _within(layers: list[dict[str, Any]], k: int) -> list[dict[str, Any]]:
    """Layers of a kernel's side; the stem and the classifier are neither."""
    return [row for row in layers[1:-1] if row["k"] == k]


def _mean(layers: list[dict[str, Any]], k: int) -> float:
    return float(np.mean([row["ratio"] for row in _within(layers, k)]))


def _weighted(model: nn.Module, layers: list[dict[str, Any]], k: int) -> float:
    sizes: dict[str, Tensor] = dict(model.named_parameters())
    some = [(row["ratio"], sizes[row["layer"]].numel()) for row in _within(layers, k)]
    return float(sum(ratio * size for ratio, size in some) / sum(size for _, size in some))


TASKS: dict[str, Callable[[Asked, str], dict[str, Any]]] = {
    "reference": reference, "bottleneck": bottleneck, "search": search, "tune": tune,
    "densities": densities, "fine": fine, "whole": whole,
    "pattern": pattern, "paper": paper,
}  # fmt: skip
