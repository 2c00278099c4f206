"""Single weights of `benchmarks.amc`: the densities of layers by AMC, against the same density everywhere.

    fine-SEED                   a policy for each of DENSITIES, searched at once on the whole network
    fine.METHOD.PERCENT-SEED    the reference pruned along a schedule to a policy's densities while it is trained

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
DENSITIES = (20,)  # percent
_LEAST = 0.03


def fine(asked: Asked, method: str) -> dict[str, Any]:
    """The searches, or the training of one policy."""
    return _trained(asked, *method.split(".")) if method else _searched(asked)


def _searched(asked: Asked) -> dict[str, Any]:
    """The densities of three methods at each size, and what they give with nothing retrained."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    policies: dict[str, Any] = {}
    for percent in DENSITIES:
        built = build(
            model, data.plain, data.held, Wish(Budget("params", share=percent / 100), "weights", least=_LEAST)
        )
        for name in ("amc", "uniform", "threshold"):
            found, how = searched(name, built.problem, asked, f"fine{percent}", asked.episodes)
            policies[f"{name}.{percent}"] = figures(built, found) | {
                "seconds": how.seconds, "evaluations": how.evaluations,
                "test_accuracy": untrained(model, built, found, data.test),
            }  # fmt: skip
    return {"seed": asked.seed, "policies": policies, "seconds": time.perf_counter() - begin}


def _trained(asked: Asked, method: str, percent: str) -> dict[str, Any]:
    """Prune along a schedule to a policy's densities while training, then train on with masks held."""
    begin, data, model, teacher = time.perf_counter(), ready(asked), trained(asked), trained(asked)
    layers = asked.row("fine")["policies"][f"{method}.{percent}"]["layers"]
    held = Gradual(model, Target({row["layer"]: row["ratio"] for row in layers}, "layer"), until=0.5)
    how = relearning(asked, asked.fine_epochs, asked.fine_rate, asked.fine_decay)
    train(model, data.train, how, constraint=held, teacher=teacher, keep=asked.kept(f"fine.{method}.{percent}"))
    weights = prunable(model)
    kept = sum(int((weight != 0).sum()) for weight in weights.values())
    return {"seed": asked.seed, "method": method, "density": int(percent) / 100,
            "test_accuracy": evaluate(model, data.test).accuracy,
            "reference_accuracy": evaluate(teacher, data.test).accuracy,
            "fewer_weights": sum(weight.numel() for weight in weights.values()) / kept, "epochs": asked.fine_epochs,
            "decay": asked.fine_decay, "rate": asked.fine_rate, "soft": asked.soft,
            "batch": asked.tune_batch or asked.batch, "seconds": time.perf_counter() - begin}  # fmt: skip
