"""What the tasks of `benchmarks.amc` stand on: data on the device, how networks are trained, how a search is kept.

Everything that takes long goes on where it was cut: trainings by ``keep`` of `retrain.train`, searches by their agent
and their measurements under ``WORK/kept``.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire import data as workloads
from tightwire import models
from tightwire.compress.retrain import Examples, Training, evaluate
from tightwire.compress.search.build import Built
from tightwire.compress.search.problem import Problem, Tried
from tightwire.compress.search.settle import settle
from tightwire.data.augment import crop_flip
from tightwire.engines.search_methods import Kept, Searched, search_by
from tightwire.engines.shrink_source import make_sets

_LONG = 20  # epochs, from which on compiling a step pays
_BOTTLENECK = {"block": "bottleneck"}
_OPTIONS: dict[str, dict[str, Any]] = {  # others as they are made if nothing is said
    "vgg16": {"norm": "batch"},
    "vgg16-quarter": {"norm": "batch", "width": 0.25},  # of all channels
}


@dataclass(frozen=True)
class Asked:
    """What the command line said."""

    data: Path
    device: str
    work: Path
    seed: int
    network: str
    epochs: float
    rate: float
    decay: float
    bottleneck_epochs: float
    tune_epochs: float
    tune_rate: float
    tune_decay: float
    fine_epochs: float
    fine_decay: float
    fine_rate: float
    soft: float
    episodes: int
    samples: int
    multiple_of: int
    least: float
    side: int
    batch: int
    tune_batch: int | None
    precision: Literal["bfloat16", "float32"] | None
    compiled: bool
    limit: int | None

    def kept(self, name: str) -> Path:
        """Where an unfinished training of this task is kept."""
        folder = self.work / "kept"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}-{self.seed}.safetensors"

    def row(self, name: str) -> dict[str, Any]:
        """What an earlier task of the same seed found."""
        found: dict[str, Any] = json.loads((self.work / f"{name}-{self.seed}.json").read_text(encoding="utf-8"))
        return found


@dataclass(frozen=True, eq=False)
class Ready:
    """Data on the device. ``held`` decides; ``plain`` are the other training samples as they are, for least squares."""

    train: Examples
    plain: Examples
    held: Examples
    test: Examples


def ready(asked: Asked) -> Ready:
    """Another seed decides by other training samples. The reference was trained on all of them, as in AMC."""
    sets = make_sets(workloads.load("cifar10", asked.data / "cifar10"), device=asked.device, decide=False)
    x_N, y_N = _small(sets.train.x_N[: asked.limit], asked), sets.train.y_N[: asked.limit]
    order = torch.randperm(len(y_N), generator=torch.Generator().manual_seed(1000 + asked.seed)).to(y_N.device)
    x_N, y_N = x_N[order], y_N[order]
    count = min(asked.samples, len(y_N) // 2)
    held, plain = Examples(x_N[:count], y_N[:count]), Examples(x_N[count:], y_N[count:])
    test = Examples(_small(sets.test.x_N[: asked.limit], asked), sets.test.y_N[: asked.limit])
    return Ready(Examples(x_N, y_N, partial(crop_flip, margin=asked.side // 8)), plain, held, test)


def _small(x_NCHW: Tensor, asked: Asked) -> Tensor:
    """Images of the side that was asked for: means of pixels, a quarter of the work at half the side."""
    return F.adaptive_avg_pool2d(x_NCHW, asked.side)


def learning(asked: Asked, epochs: float) -> Training:
    """How a reference learns: SGD with Nesterov momentum and a cosine."""
    return Training(epochs=epochs, batch=asked.batch, optimizer="sgd", lr=asked.rate, weight_decay=asked.decay,
                    precision=_precision(asked), compiled=asked.compiled, seed=asked.seed)  # fmt: skip


def relearning(asked: Asked, epochs: float, lr: float, decay: float) -> Training:
    """How what was pruned learns from the reference: at the rates the reference itself learned with.

    Renda, Frankle, Carbin: Comparing Rewinding and Fine-tuning in Neural Network Pruning. ICLR 2020, arXiv 2003.02389.
    """
    how = replace(learning(asked, epochs), lr=lr, weight_decay=decay, soft=asked.soft, temperature=3.0,
                  batch=asked.tune_batch or asked.batch)  # fmt: skip
    return replace(how, compiled=asked.compiled or (asked.device == "cuda" and epochs >= _LONG))


def _precision(asked: Asked) -> Literal["bfloat16", "float32"]:
    return asked.precision or ("bfloat16" if asked.device == "cuda" else "float32")


def make(label: str, asked: Asked) -> nn.Module:
    """The reference, or as many layers of bottleneck blocks, untrained."""
    torch.manual_seed(asked.seed)
    options = _BOTTLENECK if label == "bottleneck" else _OPTIONS.get(asked.network, {})
    name = asked.network.removesuffix("-quarter")
    return models.make(name, inputs=(3, asked.side, asked.side), classes=10, **options).to(asked.device)


def save(model: nn.Module, path: Path) -> None:
    """Weights as a file, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    save_file({key: tensor.cpu().contiguous() for key, tensor in model.state_dict().items()}, partial)
    partial.replace(path)


def trained(asked: Asked, label: str = "reference") -> nn.Module:
    """The reference again."""
    model = make(label, asked)
    model.load_state_dict(load_file(asked.work / f"{label}-0.safetensors"))
    return model.eval()


def searched(method: str, problem: Problem, asked: Asked, name: str, episodes: int) -> tuple[Tried, Searched]:
    """The best policy, and how it was found; nobody gains by others' measurements. Its seconds are of this call."""
    weights = (asked.work / f"{'bottleneck' if name == 'pattern' else 'reference'}-0.safetensors").read_bytes()
    settings = f"{asked.samples} {asked.multiple_of} {asked.least} {asked.seed}"
    words = f"{sha256(weights).hexdigest()} {name} {episodes} {settings}"
    digest = sha256(words.encode()).hexdigest()[:8]  # with other settings another search begins
    kept = Kept(asked.work / "kept", f"{name}-{asked.seed}-{method}-{digest}-", digest)
    alone = replace(problem, known={})
    found = search_by(method, alone, episodes, kept=kept, seed=asked.seed, watch=quiet)
    return settle(problem, found.tried), found


@torch.no_grad()
def untrained(model: nn.Module, built: Built, found: Tried, test: Examples) -> float:
    """Test accuracy of what a policy leaves, nothing retrained."""
    twin = deepcopy(model)
    state = twin.state_dict()
    for name, tensor in built.scorer.measure.calibrated(built.scorer.version(found.levels)).items():
        state[name].copy_(tensor)
    return evaluate(twin, test).accuracy


def quiet(*_: Any) -> None:
    """Nobody watches."""


def figures(built: Built, found: Tried) -> dict[str, Any]:
    """A policy in numbers."""
    level_1T = np.array([found.levels])
    costs = {
        kind: float(cost.total(level_1T)[0]) / (built.whole if cost is built.problem.cost else cost.most)
        for kind, cost in built.costs.items()
    }
    choices = built.problem.choices(found.levels)
    return {
        "levels": list(found.levels), "held_accuracy": 1 - found.error, "share": costs,
        "layers": [{"layer": unit.name, "k": unit.shape.k, "n": unit.shape.n, "ratio": choice.ratio}
                   for unit, choice in zip(built.problem.units, choices, strict=True)],
    }  # fmt: skip
