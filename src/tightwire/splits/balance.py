"""Where to cut a model so that all workers have the same work: measured costs, and an exact dynamic programme.

A stage of layers i … j takes T(i, j) seconds a minibatch, and its boundary moves a_i bytes each way at B bytes a
second. The slowest decides. With r stages left, of which each keeps d = 2(r−1)+1 minibatches alive:

    A(i, r) = min_j max( T(i, j),  2·a_i/B,  A(j+1, r−1) )        over cuts whose stage fits into memory

Then the columns of the last layer may be dealt out over all workers, to whoever has least (`stages.deal`). Of all
numbers of stages, the fastest is taken; of equally fast ones, the fewest, because delays cost accuracy.

Narayanan et al.: PipeDream. SOSP 2019, section 3.1, there with replicated stages instead of divided layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import inf
from time import perf_counter

import torch
from torch import Tensor, nn

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.split import Cut
from tightwire.splits.stages import deal
from tightwire.splits.wide import backward_part, forward_part, whole_sum

AS_FAST = 1.02  # plans that differ by less are equally fast


@dataclass(frozen=True)
class Layer:
    """One layer: seconds a minibatch, bytes that it is given, bytes of weights with gradients and optimizer state."""

    name: str
    seconds: float
    given_nbytes: int = 0
    weights_nbytes: int = 0
    columns: int = 0  # of a Linear: into how many parts it could be dealt out


@dataclass(frozen=True)
class Machine:
    """What workers have."""

    bytes_per_second: float = inf
    memory_nbytes: float = inf


@dataclass(frozen=True)
class Plan:
    """Where to cut, the seconds of the slowest worker, and why it cannot be less."""

    cut: Cut
    stages: int
    seconds: float
    speedup: float
    why: str


def bound(layers: Sequence[Layer], workers: int) -> tuple[float, str]:
    """The most that cutting between whole layers can give, and why.

    >>> bound([Layer("fc7", 5.0), Layer("fc8", 4.0)], 4)
    (1.8, 'fc7 alone is 55.6% of the work: whole-layer cutting is limited to 1.80×; split it over 3 workers')
    """
    total = sum(layer.seconds for layer in layers)
    heaviest = max(layers, key=lambda layer: layer.seconds)
    limit = total / heaviest.seconds
    if limit >= workers:
        share = f"{heaviest.name} is the heaviest, with {heaviest.seconds / total:.1%}"
        return float(workers), f"no layer is more than 1/{workers} of the work: {share}"
    needed = -int(-heaviest.seconds * workers // total)
    return limit, (
        f"{heaviest.name} alone is {heaviest.seconds / total:.1%} of the work: whole-layer cutting is limited to "
        f"{limit:.2f}×; split it over {max(2, needed)} workers"
    )


def whole_layers(layers: Sequence[Layer], stages: int, machine: Machine) -> tuple[float, tuple[int, ...]]:
    """Seconds of the slowest stage, and the cuts that make it fastest: exact. Of such cuts, ones that are even."""
    held = [layer.given_nbytes for layer in layers]

    def cost(first: int, end: int, left: int) -> float:
        alive = 2 * (left - 1) + 1
        memory = sum(layer.weights_nbytes for layer in layers[first:end]) + alive * sum(held[first:end])
        if memory > machine.memory_nbytes:
            return inf
        transfer = 2 * held[first] / machine.bytes_per_second if first else 0.0
        return max(transfer, sum(layer.seconds for layer in layers[first:end]))

    @cache
    def best(first: int, left: int) -> tuple[float, float, tuple[int, ...]]:
        if left == 1:
            alone = cost(first, len(layers), 1)
            return alone, alone**2, ()
        options = []
        for cut in range(first + 1, len(layers) - left + 2):
            here, (after, uneven, cuts) = cost(first, cut, left), best(cut, left - 1)
            options.append((max(here, after), here**2 + uneven, (cut, *cuts)))
        return min(options)

    slowest, _, cuts = best(0, stages)
    return slowest, cuts


def balance(layers: Sequence[Layer], workers: int, machine: Machine | None = None) -> Plan:
    """The best cuts for so many workers, with the last layer dealt out if that is faster.

    >>> plan = balance([Layer("a", 2.0), Layer("b", 2.0), Layer("c", 4.0, columns=100)], 4)
    >>> plan.cut, plan.speedup
    (Cut(cuts=(1, 2), wide=4, columns=(0, 0, 50, 50), replicas=1), 4.0)
    """
    machine = machine or Machine()
    total = sum(layer.seconds for layer in layers)
    limit, why = bound(layers, workers)
    plans = []
    for stages in range(1, min(workers, len(layers)) + 1):
        seconds, cuts = whole_layers(layers, stages, machine)
        if stages == workers:  # a worker without a stage would be idle
            plans.append((seconds, stages, Cut(cuts)))
    if layers[-1].columns and len(layers) > 1:
        for stages in range(2, min(workers + 1, len(layers)) + 1):
            plans.append(_wide(layers, stages, workers, machine))
    finite = [plan for plan in plans if plan[0] < inf]
    if not finite:
        raise RecipeError(
            f"no way to cut {len(layers)} layers for {workers} workers fits into {machine.memory_nbytes:.3g} bytes "
            "each; use more workers or smaller minibatches"
        )
    fastest = min(seconds for seconds, _, _ in finite)
    seconds, stages, cut = min((p for p in finite if p[0] <= AS_FAST * fastest), key=lambda plan: plan[1])
    if cut.wide:
        why += f"; dealt out over {sum(map(bool, cut.columns))} it reaches {total / seconds:.2f}×"
    elif limit < workers:
        why += f"; these cuts reach {total / seconds:.2f}×"
    return Plan(cut, stages, seconds, total / seconds, why)


def _wide(layers: Sequence[Layer], stages: int, workers: int, machine: Machine) -> tuple[float, int, Cut]:
    """The hidden layers in ``stages − 1`` stages, the last one dealt out over all workers."""
    last, before = layers[-1], list(layers[:-1])
    slowest, cuts = whole_layers(before, stages - 1, machine)
    edges = (0, *cuts, len(before))
    loads = [sum(layer.seconds for layer in before[lo:hi]) for lo, hi in pairwise(edges)]
    loads += [0.0] * (workers - stages + 1)
    columns = deal(loads, last.seconds, last.columns)
    shares = [load + last.seconds * count / last.columns for load, count in zip(loads, columns, strict=True)]
    moved = 2 * last.given_nbytes * sum(map(bool, columns)) / machine.bytes_per_second
    fits = all(last.weights_nbytes * count / last.columns <= machine.memory_nbytes for count in columns)
    seconds = max(slowest, moved, *shares) if fits else inf
    return seconds, stages, Cut((*cuts, len(before)), workers, columns)


def measure(model: nn.Sequential, x: Tensor, label_B: Tensor | None = None, *, rounds: int = 3) -> list[Layer]:
    """Time each layer on this machine: forward, backward, and a step of SGD on its weights; the best of some rounds.

    With labels, a Linear at the end is timed with its softmax, as `splits.wide` computes it.
    """
    layers: list[Layer] = []
    given = x
    for index, module in enumerate(model):
        ends = label_B if index == len(model) - 1 and isinstance(module, nn.Linear) else None
        best, result = inf, given
        for _ in range(rounds):
            begin = perf_counter()
            result = _once(module, given, ends, first=index == 0)
            best = min(best, perf_counter() - begin)
        nbytes = sum(parameter.nbytes for parameter in module.parameters())
        columns = module.out_features if isinstance(module, nn.Linear) else 0
        layers.append(Layer(f"{index}: {type(module).__name__}", best, given.nbytes, 3 * nbytes, columns))
        given = result.detach()
    return layers


def _once(module: nn.Module, given: Tensor, label_B: Tensor | None, *, first: bool) -> Tensor:
    """One pass there and back through a layer, and a step that changes nothing."""
    if label_B is not None and isinstance(module, nn.Linear):
        part = forward_part(module, given, label_B, 0)
        result = backward_part(module, part, whole_sum([part.said_3B])[0], 1.0)
    else:
        result = module(given.detach().requires_grad_(not first and given.is_floating_point()))
        if result.requires_grad:
            result.backward(torch.ones_like(result))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad, alpha=0.0)
            parameter.grad = None
    return result
