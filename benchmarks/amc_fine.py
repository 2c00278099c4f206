"""Single weights of `benchmarks.amc`: the densities of layers by AMC, against the same density everywhere.

    densities.PERCENT-SEED      policies for so many percent of the weights, searched at once on the whole network
    fine.METHOD.PERCENT-SEED    the reference pruned along a schedule to a policy's densities while it is trained
    whole-SEED                  the reference trained on for as long, nothing pruned: what longer training alone gives

All are trained alike, from the same reference: only the densities of the layers differ. Not in rounds
(50, 35, 25, 20%): where half the weights are left no policy is better than another beyond chance, and what is chosen
there bounds what later rounds can choose.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.amc_ground import Asked, figures, ready, relearning, searched, trained, untrained
from tightwire.compress.prune.gradual import Gradual, Target
from tightwire.compress.prune.masks import prunable
from tightwire.compress.retrain import evaluate, train
from tightwire.compress.search.budget import Budget
from tightwire.compress.search.build import Wish, build

FIFTH = 0.2
FINE_METHODS = ("amc", "uniform", "threshold")
_LEAST_OF_SHARE = 0.15  # the smallest share of its weights that a layer keeps, in shares of what all keep


def densities(asked: Asked, percent: str) -> dict[str, Any]:
    """The densities of three methods at one size, and what they give with nothing retrained."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    share = int(percent) / 100
    budget = Budget("params", share=share)
    built = build(model, data.plain, data.held, Wish(budget, "weights", least=_LEAST_OF_SHARE * share))
    policies: dict[str, Any] = {}
    for name in FINE_METHODS:
        found, how = searched(name, built.problem, asked, f"fine{percent}", asked.episodes)
        policies[name] = figures(built, found) | {
            "seconds": how.seconds, "evaluations": how.evaluations,
            "test_accuracy": untrained(model, built, found, data.test),
        }  # fmt: skip
    return {"seed": asked.seed, "density": share, "policies": policies, "seconds": time.perf_counter() - begin}


def fine(asked: Asked, method: str) -> dict[str, Any]:
    """Prune along a schedule to a policy's densities while training, then train on with masks held."""
    name, _, percent = method.partition(".")
    layers = asked.row(f"densities.{percent}")["policies"][name]["layers"]
    found = _trained_on(asked, method, {row["layer"]: row["ratio"] for row in layers})
    return {"method": name, "density": int(percent) / 100} | found


def whole(asked: Asked, method: str) -> dict[str, Any]:
    """Train on with nothing pruned."""
    return _trained_on(asked, "whole", {})


def _trained_on(asked: Asked, name: str, ratios: dict[str, float]) -> dict[str, Any]:
    begin, data, model, teacher = time.perf_counter(), ready(asked), trained(asked), trained(asked)
    held = Gradual(model, Target(ratios, "layer"), until=0.5) if ratios else None
    how = relearning(asked, asked.fine_epochs, asked.fine_rate, asked.fine_decay)
    train(model, data.train, how, constraint=held, teacher=teacher, keep=asked.kept(f"fine.{name}"))
    weights = prunable(model)
    kept = sum(int((weight != 0).sum()) for weight in weights.values())
    return {"seed": asked.seed, "test_accuracy": evaluate(model, data.test).accuracy,
            "reference_accuracy": evaluate(teacher, data.test).accuracy,
            "fewer_weights": sum(weight.numel() for weight in weights.values()) / kept, "epochs": asked.fine_epochs,
            "decay": asked.fine_decay, "rate": asked.fine_rate, "soft": asked.soft,
            "batch": asked.tune_batch or asked.batch, "seconds": time.perf_counter() - begin}  # fmt: skip
