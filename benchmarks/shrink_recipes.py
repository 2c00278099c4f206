"""The networks of `benchmarks.shrink`: how each is trained, the paper's recipe, and ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tightwire.compress.plan import Plan
from tightwire.compress.retrain import Training
from tightwire.data.augment import AugmentName


@dataclass(frozen=True)
class Recipe:
    """One network: its data, its reference training, and the plans to shrink it by, by name."""

    model: str
    data: str
    reference: Training
    plans: dict[str, Plan]
    options: dict[str, Any] = field(default_factory=dict)
    augment: AugmentName = "none"
    curve: Training | None = None  # retraining at each number of bits, for accuracy against bits

    def seeded(self, seed: int) -> Recipe:
        """The same with another seed everywhere."""
        plans = {
            name: replace(plan, retrain=replace(plan.retrain, seed=seed), polish=replace(plan.polish, seed=seed + 100))
            for name, plan in self.plans.items()
        }
        curve = None if self.curve is None else replace(self.curve, seed=seed + 200)
        return replace(self, reference=replace(self.reference, seed=seed), plans=plans, curve=curve)


_MNIST = Training(epochs=20, batch=128, optimizer="sgd", lr=0.05, weight_decay=5e-4)
_PRUNE = Training(epochs=40, batch=128, lr=2e-3, weight_decay=0.2, soft=0.5)
_POLISH = Training(epochs=5, batch=128, lr=3e-4, soft=0.5)

# Han, Mao, Dally (ICLR 2016), tables 2 and 3: their densities and bits a layer, Huffman; centroids, biases in halves.
# LeNet-5 is retrained as theirs was, by SGD with an L2 penalty at a fraction of its rate: weights then keep the long
# tails of the reference, and their codes take half a bit less than after AdamW.
_PAPER_300 = Plan(
    layers={"1.weight": 0.08, "3.weight": 0.09, "5.weight": 0.26}, schedule="rounds:5", until=0.8,
    centroids=64, bit_cost=0.0,
    retrain=Training(epochs=25, batch=128, lr=2e-3, weight_decay=0.02), polish=Training(epochs=3, batch=128, lr=1e-4),
)  # fmt: skip
_PAPER_5 = replace(
    _PAPER_300,
    layers={"0.weight": 0.66, "2.weight": 0.12, "5.weight": 0.08, "7.weight": 0.19},
    centroids=32,
    layer_centroids={"0.weight": 256, "2.weight": 256},
    retrain=Training(epochs=25, batch=128, optimizer="sgd", lr=0.005, weight_decay=5e-4),
)

_CIFAR = Training(
    epochs=100, batch=512, optimizer="sgd", lr=0.2, weight_decay=5e-4, precision="bfloat16", compiled=True
)
_CIFAR_PRUNE = replace(_CIFAR, epochs=120, lr=0.1, soft=0.7, temperature=3.0)
_CIFAR_POLISH = Training(epochs=12, batch=512, lr=5e-4, soft=0.7, temperature=3.0, precision="bfloat16")
_CIFAR_CURVE = Training(epochs=5, batch=512, lr=3e-4, soft=0.5, precision="bfloat16")


def _cifar(density: float, *, centroids: int = 16, bit_cost: float = 0.01) -> Plan:
    return Plan(
        density=density, centroids=centroids, bit_cost=bit_cost, until=0.5, retrain=_CIFAR_PRUNE, polish=_CIFAR_POLISH
    )


# VGG-16 on images of 32 pixels: its last layers see 2 × 2 positions and can do with few of their filters (Louizos,
# Ullrich, Welling: Bayesian Compression for Deep Learning. NIPS 2017), where relative magnitudes would keep most there.
_VGG = {
    "0.weight": 0.70, "3.weight": 0.50, "7.weight": 0.50, "10.weight": 0.43, "14.weight": 0.30, "17.weight": 0.225,
    "20.weight": 0.157, "24.weight": 0.09, "27.weight": 0.056, "30.weight": 0.045, "34.weight": 0.020,
    "37.weight": 0.020, "40.weight": 0.020, "45.weight": 0.11, "48.weight": 0.50,
}  # fmt: skip


def _mnist(density: float) -> Plan:
    return Plan(density=density, centroids=16, bit_cost=0.02, until=0.5, retrain=_PRUNE, polish=_POLISH)


_MNIST_CURVE = replace(_POLISH, epochs=3)

RECIPES: dict[str, Recipe] = {
    "lenet-300-100": Recipe(
        "lenet-300-100", "mnist", _MNIST, {"paper": _PAPER_300, "ours": _mnist(0.06), "smaller": _mnist(0.03)},
        curve=_MNIST_CURVE,
    ),
    "lenet-5": Recipe(
        "lenet-5", "mnist", replace(_MNIST, lr=0.03),
        {"paper": _PAPER_5, "ours": _mnist(0.08), "smaller": _mnist(0.03)}, augment="shift", curve=_MNIST_CURVE,
    ),
    "vgg16": Recipe(
        "vgg16", "cifar10", replace(_CIFAR, lr=0.1),
        {"ours": replace(_cifar(0.06, centroids=32, bit_cost=0.002), layers=_VGG,
                         retrain=replace(_CIFAR_PRUNE, epochs=300), polish=replace(_CIFAR_POLISH, epochs=25))},
        {"norm": "batch"}, augment="crop-flip",
    ),
    "resnet20": Recipe("resnet20", "cifar10", _CIFAR, {"ours": _cifar(0.32)}, augment="crop-flip", curve=_CIFAR_CURVE),
    "resnet56": Recipe(
        "resnet56", "cifar10", replace(_CIFAR, epochs=70),
        {"ours": replace(_cifar(0.33), retrain=replace(_CIFAR_PRUNE, epochs=70))}, augment="crop-flip",
    ),
}  # fmt: skip
