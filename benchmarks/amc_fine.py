"""Single weights of `benchmarks.amc`: AMC in rounds with training in between, against the same density everywhere.

    fine-SEED               the rounds: search at 50%, prune, train; at 35%, …; a policy for each of DENSITIES
    fine.METHOD.PERCENT-SEED    the reference pruned along a schedule to a policy's densities while it is trained

Both methods are trained alike, from the same reference: only the densities of the layers differ.
"""

from __future__ import annotations

import json
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from benchmarks.amc_ground import Asked, Ready, figures, quiet, ready, relearning, save, searched, trained
from tightwire.compress.prune.gradual import Gradual, Target
from tightwire.compress.prune.masks import prunable
from tightwire.compress.prune.schedules import one_shot
from tightwire.compress.retrain import evaluate, train
from tightwire.compress.search import rivals
from tightwire.compress.search.budget import Budget
from tightwire.compress.search.build import Built, Wish, build

FIFTH = 0.2
ROUNDS = (0.5, 0.35, 0.25, 0.2)
DENSITIES = (20,)  # percent: what is trained in the end
_ROUND_EPOCHS = 4.0


def fine(asked: Asked, method: str) -> dict[str, Any]:
    """The rounds, or the training of one policy."""
    return _trained(asked, *method.split(".")) if method else _rounds(asked)


def _rounds(asked: Asked) -> dict[str, Any]:
    """AMC at each density, the network pruned and trained before the next; uniform needs no rounds."""
    begin, data, model = time.perf_counter(), ready(asked), trained(asked)
    teacher, path = deepcopy(model), asked.work / "kept" / f"fine-{asked.seed}-rounds.json"
    rounds: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    if rounds:
        model.load_state_dict(load_file(_weights(path, len(rounds))))
    for number in range(len(rounds), len(ROUNDS)):
        built = _built(model, data, ROUNDS[number])
        found, how = searched("amc", built.problem, asked, f"fine-round{number}", max(1, asked.episodes // 2))
        rounds.append({"density": ROUNDS[number], "seconds": how.seconds, **figures(built, found)})
        if number + 1 < len(ROUNDS):
            _hold(model, rounds[-1]["layers"], data, asked, teacher, number)
        save(model, _weights(path, len(rounds)))
        _put(path, rounds)
    return {"seed": asked.seed, "rounds": rounds, "policies": _policies(teacher, data, rounds),
            "seconds": time.perf_counter() - begin}  # fmt: skip


def _policies(teacher: nn.Module, data: Ready, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The densities of both methods at each size, and what they give with nothing retrained."""
    found: dict[str, Any] = {}
    for percent in DENSITIES:
        built = _built(teacher, data, percent / 100)
        (even,) = rivals.uniform(built.problem, 1, told=quiet)
        amc = next(row for row in rounds if row["density"] == percent / 100)
        found[f"amc.{percent}"] = {"layers": amc["layers"], "held_accuracy": amc["held_accuracy"]}
        found[f"uniform.{percent}"] = {"layers": figures(built, even)["layers"], "held_accuracy": 1 - even.error}
    return found


def _built(model: nn.Module, data: Ready, share: float) -> Built:
    return build(model, data.plain, data.held, Wish(Budget("params", share=share), "weights", least=0.03))


def _hold(
    model: nn.Module, layers: list[dict[str, Any]], data: Ready, asked: Asked, teacher: nn.Module, number: int
) -> None:
    target = Target({row["layer"]: row["ratio"] for row in layers}, "layer", one_shot())
    how = relearning(asked, min(_ROUND_EPOCHS, asked.tune_epochs), 0.02)
    held = Gradual(model, target, until=0.0)
    train(model, data.train, how, constraint=held, teacher=teacher, keep=asked.kept(f"fine.round{number}"))


def _weights(path: Path, rounds: int) -> Path:
    return path.with_name(f"{path.stem}{rounds}.safetensors")


def _put(path: Path, rounds: list[dict[str, Any]]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(rounds), encoding="utf-8")
    partial.replace(path)


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
