"""How many samples a recipe needs: statistical efficiency, which no step time knows.

    time to target = samples to target ÷ samples a second          one from probe runs, the other from `plan.cost`

Samples grow with the batch of all workers together: S(B) = S_min·(1 + B/B_noise), where B_noise is the batch at which
noise and signal of the gradient are level (McCandlish, Kaplan, Amodei et al.: An Empirical Model of Large-Batch
Training. arXiv 1812.06162, 2018). Its simple estimate needs gradients of two batch sizes:

    |G|² ≈ (B·|G_B|² − b·|G_b|²)/(B − b)     tr Σ ≈ (|G_b|² − |G_B|²)/(1/b − 1/B)     B_noise = tr Σ / |G|²

Asynchrony acts as momentum: g groups that never wait add 1 − 1/g of it (Mitliagkas, Zhang, Hadjis, Ré 2016; Hadjis et
al.: Omnivore, arXiv 1606.04487), which explicit momentum must make room for; beyond g = 1/(1 − μ) no room is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn

from tightwire.plan.cost import Prediction
from tightwire.plan.errors import PlanError
from tightwire.plan.measure import LossFn


@dataclass(frozen=True)
class Probe:
    """A short run that reached its target: how many samples of all workers that took, with which batch of all."""

    recipe: str
    batch: int
    samples: float


@dataclass(frozen=True)
class TimeToTarget:
    """Seconds to a target; ``basis`` says whether this very batch was probed, or the law stands between two."""

    recipe: str
    seconds: float
    samples: float
    basis: Literal["probed", "by the law of batches"]


def crossing(samples: Sequence[float], accuracy: Sequence[float], target: float) -> float | None:
    """After how many samples a curve first reaches a target, between its points; None if it never does.

    >>> crossing([100, 200], [0.5, 0.7], 0.6)
    150.0
    """
    if accuracy and accuracy[0] >= target:
        return float(samples[0])
    for (s0, a0), (s1, a1) in pairwise(zip(samples, accuracy, strict=True)):
        if a0 < target <= a1:
            return s0 + (s1 - s0) * (target - a0) / (a1 - a0)
    return None


def samples_needed(
    recipe: str, batch: int, probes: Iterable[Probe], *, noise: float | None = None
) -> TimeToTarget | None:
    """Samples to target with a batch of all workers: as probed, or by the law from two probes, or one and the noise.

    None where no probe of this recipe says anything. ``seconds`` is left at 0.
    """
    mine = sorted((p for p in probes if p.recipe == recipe), key=lambda p: p.batch)
    exact = [p.samples for p in mine if p.batch == batch]
    if exact:
        return TimeToTarget(recipe, 0.0, sum(exact) / len(exact), "probed")
    if noise is not None and mine:
        nearest = min(mine, key=lambda p: abs(p.batch - batch))
        needed = nearest.samples * (1 + batch / noise) / (1 + nearest.batch / noise)
        return TimeToTarget(recipe, 0.0, needed, "by the law of batches")
    if len({p.batch for p in mine}) < 2:
        return None
    low, high = mine[0], mine[-1]
    slope = max(0.0, (high.samples - low.samples) / (high.batch - low.batch))
    return TimeToTarget(recipe, 0.0, max(0.0, low.samples + slope * (batch - low.batch)), "by the law of batches")


def time_to_target(said: Prediction, probes: Iterable[Probe], *, noise: float | None = None) -> TimeToTarget | None:
    """Seconds to a target of a predicted recipe, if probes know it."""
    needed = samples_needed(said.recipe, said.batch, probes, noise=noise)
    if needed is None:
        return None
    return TimeToTarget(needed.recipe, needed.samples / said.samples_per_s, needed.samples, needed.basis)


def noise_scale(model: nn.Module, batches: Iterable[tuple[Any, Any]], loss_fn: LossFn) -> float:
    """B_noise at the model's weights: of batches of one size, alone and all together. Gradients are cleared."""
    several = list(batches)
    count = len(several)
    if count < 2:
        raise PlanError(f"{count} batches: the noise of a gradient needs at least two")
    gradients = list(_gradients(model, several, loss_fn))
    small = len(several[0][0])
    large = small * count
    mean_square = sum(float(g.square().sum()) for g in gradients) / count
    together = float((sum(gradients[1:], gradients[0]) / count).square().sum())
    signal = (large * together - small * mean_square) / (large - small)
    noise = (mean_square - together) / (1 / small - 1 / large)
    return max(0.0, noise) / signal if signal > 0 else float("inf")


def _gradients(model: nn.Module, batches: Sequence[tuple[Any, Any]], loss_fn: LossFn) -> Iterator[torch.Tensor]:
    for x, y in batches:
        model.zero_grad(set_to_none=True)
        loss_fn(model(x), y).backward()
        yield torch.cat([p.grad.flatten().double() for p in model.parameters() if p.grad is not None])
    model.zero_grad(set_to_none=True)


def implicit_momentum(groups: int) -> float:
    """What asynchrony of so many groups adds.

    >>> [implicit_momentum(g) for g in (1, 2, 4)]
    [0.0, 0.5, 0.75]
    """
    if groups < 1:
        raise PlanError(f"{groups} groups: there is at least one")
    return 1 - 1 / groups


def explicit_momentum(best: float, groups: int) -> float:
    """What is left for the optimizer of the best momentum.

    >>> round(explicit_momentum(0.9, 4), 2), explicit_momentum(0.9, 16)
    (0.15, 0.0)
    """
    return max(0.0, best - implicit_momentum(groups))


def most_groups(best: float) -> float:
    """More groups than this have too much momentum, whatever the optimizer does: 1/(1 − μ).

    >>> round(most_groups(0.9), 6)
    10.0
    """
    if not 0 <= best < 1:
        raise PlanError(f"momentum={best}: it lies between 0 and 1")
    return 1 / (1 - best)
