"""MobileNetV2 with ImageNet weights, shrunk without data: clustered and coded only, agreement of its answers measured.

Agreement is the share of inputs for which the file's network and the float network name the same class: on photographs
(CIFAR-10's test images, enlarged to 224×224: natural, though not what it was trained on) and on noise.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire import data as workloads
from tightwire import models
from tightwire.compress.artifact import Architecture, Artifact, build, read, write
from tightwire.compress.pipeline import Pipeline
from tightwire.compress.plan import Plan
from tightwire.compress.prune.masks import prunable
from tightwire.compress.share.uniform import uniform
from tightwire.compress.size import dense_nbytes
from tightwire.engines.shrink_file import tensors_of

_BITS = (4, 5, 6, 7, 8)
_SMALL, _FINE = (
    20_000,
    1024,
)  # layers of few weights (all depthwise ones) have many values: they matter, and cost little
_NOISE = 64
_PHOTOS = {"cpu": 96, "cuda": 5000}
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as the weights expect


def measure(weights: Path, folder: Path, device: str) -> dict[str, Any]:
    """Bytes and agreement at several bits, by k-means and with uniform levels."""
    model = models.make("mobilenet-v2", inputs=(3, 224, 224), classes=1000).eval()
    model.load_state_dict(torch.load(weights, weights_only=True))  # tensors only: nothing of a pickle is run
    inputs = {"photos": _photos(folder, _PHOTOS[device]), "noise": _noise()}
    model.to(device)
    answers = {name: _answers(model, x, device) for name, x in inputs.items()}
    rows = []
    for bits in _BITS:
        row: dict[str, Any] = {"bits": bits}
        fine = {name: _FINE for name, weight in prunable(model).items() if weight.numel() <= _SMALL}
        plan = Plan(centroids=1 << bits, layer_centroids=fine, bit_cost=0.0)
        made = Pipeline(deepcopy(model).cpu(), plan).run()
        architecture = Architecture("mobilenet-v2", (3, 224, 224), 1000)
        content = write(Artifact(tensors_of(made.model, made.shared), architecture))
        row |= {"nbytes": len(content), "ratio": dense_nbytes(model) / len(content)}
        row |= _agreement("kmeans", build(read(content)).to(device), inputs, answers, device)
        level = deepcopy(model)
        with torch.no_grad():
            for weight in prunable(level).values():
                weight.copy_(uniform(weight, bits).dense())
        rows.append(row | _agreement("uniform", level, inputs, answers, device))
    return {
        "network": "mobilenet-v2",
        "dense_nbytes": dense_nbytes(model),
        "photos": len(inputs["photos"]),
        "bits": rows,
    }


def _agreement(
    label: str, model: nn.Module, inputs: dict[str, Tensor], answers: dict[str, Tensor], device: str
) -> dict[str, float]:
    return {
        f"{label}_agreement_{name}": float((_answers(model, x, device) == answers[name]).float().mean())
        for name, x in inputs.items()
    }


def _photos(folder: Path, count: int) -> Tensor:
    """Test images between 0 and 1 again, then as ImageNet's are; enlarged when they are used."""
    data = workloads.load("cifar10", folder / "cifar10")
    x = data.test.x[:count].float() / 255  # type: ignore[attr-defined]
    return (x - torch.tensor(_MEAN).view(3, 1, 1)) / torch.tensor(_STD).view(3, 1, 1)


def _noise() -> Tensor:
    return torch.randn(_NOISE, 3, 28, 28, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def _answers(model: nn.Module, x: Tensor, device: str) -> Tensor:
    large = (F.interpolate(part.to(device), 224, mode="bicubic") for part in x.split(64))
    return torch.cat([model.eval()(part).argmax(-1).cpu() for part in large])
