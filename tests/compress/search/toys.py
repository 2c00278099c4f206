"""Problems with known answers, and networks of every kind that channels can be pruned in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from tightwire.compress.retrain import Examples
from tightwire.compress.search.clip import clip
from tightwire.compress.search.cost import Cost, Levels
from tightwire.compress.search.knapsack import knapsack
from tightwire.compress.search.problem import Problem
from tightwire.compress.search.units import Choice, Shape, Unit, grid
from tightwire.models import make
from tightwire.models.resnet import Block, basic


class Known:
    """An error that is the sum of known harms."""

    def __init__(self, harms: list[np.ndarray]) -> None:
        self.harms, self.measured = harms, 0

    def errors(self, level_BT: Levels) -> list[float]:
        self.measured += len(level_BT)
        return [float(sum(harm[level] for harm, level in zip(self.harms, row, strict=True))) for row in level_BT]


def toy(seed: int, *, units: int = 6, choices: int = 21, share: float = 0.5) -> tuple[Problem, float]:
    """Layers of unlike sizes and sensitivities, half of all weights to keep; and the accuracy of the best policy."""
    random = np.random.default_rng(seed)
    size = random.integers(50, 400, units).astype(float)
    sensitive = random.uniform(0.2, 3.0, units) ** 2
    sensitive *= 0.9 / sensitive.sum()
    ratios = np.linspace(0.1, 1.0, choices)
    made = tuple(
        Unit(f"u{t}", Shape(int(size[t]), int(random.integers(1, 64)), 8, 8, 1, 3), int(size[t]), (choices,),
             tuple(Choice(float(r), int(r * size[t])) for r in ratios))
        for t in range(units)
    )  # fmt: skip
    own = tuple(np.floor(ratios * size[t]) for t in range(units))
    harms = [sensitive[t] * (1 - ratios) ** 2 for t in range(units)]
    cost = Cost("weights", own, own)
    scorer = Known(harms)
    target = share * cost.most
    optimum = 1 - scorer.errors(np.array([knapsack(own, harms, target)]))[0]
    return Problem(made, clip(made, cost, target), scorer), optimum


PATTERNS, BITS = ("fine", "kernel"), (2, 4)


def joint_toy() -> tuple[Problem, float]:
    """Each layer has a pattern and bits of its own that are right: a search that leaves an axis alone loses 10%."""
    densities = tuple(float(d) for d in np.linspace(0.1, 1.0, 8))
    axes, sizes = (len(densities), len(PATTERNS), len(BITS)), (100, 300, 200)
    right = (("fine", 4), ("kernel", 2), ("fine", 2))
    units, costs, harms = [], [], []
    for t, size in enumerate(sizes):
        choices = grid(densities, size, patterns=PATTERNS, bits=BITS)
        units.append(Unit(f"u{t}", Shape(size, 8, 8, 8, 1, 3), size, axes, choices))
        costs.append(np.array([choice.kept * (choice.bits or 0) for choice in choices], np.float64))
        harms.append(np.array([
            0.15 * (1 - c.ratio) ** 2 + 0.1 * (c.pattern != right[t][0]) + 0.1 * ((c.bits or 0) < right[t][1])
            for c in choices
        ]))  # fmt: skip
    cost = Cost("bits", tuple(np.array([c.kept for c in u.choices], np.float64) for u in units), tuple(costs))
    target = 1200.0
    scorer = Known(harms)
    optimum = 1 - scorer.errors(np.array([knapsack(costs, harms, target)]))[0]
    return Problem(tuple(units), clip(units, cost, target), scorer), optimum


class Concat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 12, 1)
        self.norm, self.last, self.head = nn.BatchNorm2d(20), nn.Conv2d(20, 16, 3), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        joined = torch.relu(self.norm(torch.cat([self.a(x), self.b(x)], 1)))
        out: Tensor = self.head(torch.relu(self.last(joined)).mean((2, 3)))
        return out


def depthwise() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=16), nn.BatchNorm2d(16),
        nn.ReLU(), nn.Conv2d(16, 24, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5),
    )  # fmt: skip


def grouped() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, groups=4), nn.ReLU(), nn.Conv2d(32, 16, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


def residual() -> nn.Module:
    shortcut = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        Block(basic(8, 8, 1), nn.Identity(), 1.0), Block(basic(8, 16, 2), shortcut, 1.0),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "residual": residual,
    "lenet": lambda: make("lenet-5", inputs=(3, 16, 16), classes=5),
    "concat": Concat,
    "depthwise": depthwise,
    "grouped": grouped,
}


def network(name: str) -> nn.Module:
    """A network whose batch norms have seen data, so that their numbers are not all alike."""
    torch.manual_seed(1)
    model = NETWORKS[name]()
    with torch.no_grad():
        for _ in range(3):
            model.train()(torch.randn(16, 3, 16, 16))
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.3, 0.3)
    return model.eval()


def examples(count: int = 64) -> Examples:
    random = torch.Generator().manual_seed(0)
    return Examples(torch.randn(count, 3, 16, 16, generator=random), torch.randint(5, (count,), generator=random))
