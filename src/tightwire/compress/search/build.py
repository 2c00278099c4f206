"""From a network, samples and a wish to a `Problem`: units, cost, hard target, and who measures.

channels   groups → units;   statistics gathered once;   cost: multiply-adds, parameters, bytes, or timed layers
weights    layers → units;   ranked once;                cost: multiply-adds, parameters, or coded bytes
joint      weights, with the pattern and the bits of every layer to choose as well

To each belongs a rule, which gives policies that need no search for any target (`rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.prune.masks import prunable
from tightwire.compress.retrain import Examples
from tightwire.compress.search.budget import Budget
from tightwire.compress.search.channels import Channels, channel_units
from tightwire.compress.search.clip import clip
from tightwire.compress.search.cost import Cost
from tightwire.compress.search.costs import (
    bytes_curve,
    channel_bytes_beside,
    channel_cost,
    coded_cost,
    flops_curve,
    parameters_beside,
    params_curve,
    weight_cost,
)
from tightwire.compress.search.curvature import foresee
from tightwire.compress.search.groups import find_groups
from tightwire.compress.search.latency import Table, aim, time_all
from tightwire.compress.search.layers import Layer, read_layers
from tightwire.compress.search.measure import Measure
from tightwire.compress.search.problem import Problem
from tightwire.compress.search.rules import at_share, by_harm, by_thresholds
from tightwire.compress.search.seen import look
from tightwire.compress.search.timing import in_turns_ns
from tightwire.compress.search.weights import Weights, weight_units
from tightwire.compress.size import Estimate, Sizer, dense_nbytes

Prune: TypeAlias = Literal["channels", "weights", "joint"]
Reward: TypeAlias = Literal["error", "flops", "params"]
Rule: TypeAlias = Callable[[Problem], tuple[tuple[int, ...], ...]]
PATTERNS, BITS = ("kernel", "vector:4", "fine"), (2, 3, 4, 5)  # the finest last
_CALIBRATED, _CALIBRATED_LEAST, _CALIBRATED_NUMBERS = 1000, 64, 1 << 22  # samples for batch norms; numbers in them
_TIMED_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # the smallest policy, the whole network, and some between
_SMALL = 2e10  # multiply-adds of all samples, below which a GPU has room for several networks at once
_TOGETHER = 16


@dataclass(frozen=True)
class Wish:
    """What to search. ``least`` is the smallest share that a unit may keep; ``bits`` those of a file."""

    budget: Budget | None = None
    prune: Prune = "channels"
    reward: Reward = "error"
    multiple_of: int = 1
    least: float | None = None
    bits: int = 4
    batch: int = 1  # of which the latency is

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.prune not in ("channels", "weights", "joint"):
            raise CompressError(f"prune={self.prune!r} is not known; choose channels, weights or joint")
        if self.reward not in ("error", "flops", "params"):
            raise CompressError(f"reward={self.reward!r} is not known; choose error, flops or params")
        if self.budget is None and self.reward == "error":
            raise CompressError("a search for the least error needs a --budget; or give --reward flops or params")
        if self.budget is not None and self.budget.kind == "latency" and self.prune != "channels":
            raise CompressError("zeros among weights do not change the time of a dense layer; use --prune channels")
        if self.multiple_of < 1 or not 1 <= self.bits <= 8 or self.batch < 1:
            raise CompressError(
                f"multiple-of={self.multiple_of}, bits={self.bits}, batch={self.batch}: at least 1, bits at most 8"
            )
        if self.least is not None and not 0 < self.least < 1:
            raise CompressError(f"least={self.least}: give the smallest share a layer may keep, above 0 and below 1")

    @property
    def smallest(self) -> float:
        """The least share: AMC's 0.2 for channels; single weights bear much more."""
        return self.least if self.least is not None else (0.2 if self.prune == "channels" else 0.02)


@dataclass(frozen=True, eq=False)
class Built:
    """A problem, who measures it, and its costs by kind; ``rule`` gives the policies that need no search."""

    problem: Problem
    rule: Rule
    scorer: Channels | Weights
    costs: dict[str, Cost]
    layers: dict[str, Layer]
    whole: float  # what the network costs as it is, in the budget's own measure
    batch: Tensor  # of which a latency is: real samples, as pooling takes longer where it cannot guess the maximum

    @property
    def example(self) -> Tensor:
        """One sample."""
        return self.batch[:1]


def build(
    model: nn.Module, train: Examples, held: Examples, wish: Wish, *, sizer: Sizer | None = None,
    table: Table | None = None,
) -> Built:  # fmt: skip
    """Look at the network once; everything a search asks later is answered from what was seen."""
    model.eval()
    batch = train.x_N[torch.arange(wish.batch, device=train.x_N.device) % len(train)]
    layers = read_layers(model, batch[:1])
    if len(layers) < 2:
        raise CompressError(f"the network has {len(layers)} layers that can be pruned; a search needs at least 2")
    measure = Measure(model, held, _together(layers, held), seen_for_norms(train))
    make = _channels if wish.prune == "channels" else _weights
    return make(_Parts(model, train, layers, measure, len(held), sizer or Estimate(), table, batch, batch[:1]), wish)


def aimed_at(built: Built, target: float) -> Built:
    """The same with another target."""
    problem = built.problem
    return _ruled(replace(built, problem=replace(problem, clip=clip(problem.units, problem.cost, target))))


def _ruled(built: Built) -> Built:
    return replace(built, problem=replace(built.problem, ruled=built.rule(built.problem)))


def seen_for_norms(train: Examples) -> Tensor:
    """The samples that batch norms take their statistics from: fewer where images are large."""
    some = _CALIBRATED_NUMBERS // max(1, train.x_N[0].numel())
    return train.x_N[: min(_CALIBRATED, max(_CALIBRATED_LEAST, some))]


@dataclass(frozen=True, eq=False)
class _Parts:
    model: nn.Module
    train: Examples
    layers: dict[str, Layer]
    measure: Measure
    samples: int
    sizer: Sizer
    table: Table | None
    batch: Tensor
    example: Tensor


def _together(layers: dict[str, Layer], held: Examples) -> int:
    work = sum(layer.macs for layer in layers.values()) * len(held)
    return max(1, min(_TOGETHER, int(_SMALL / max(work, 1)))) if held.y_N.is_cuda else 1


def _channels(parts: _Parts, wish: Wish) -> Built:
    groups = find_groups(parts.model, parts.layers, parts.example)
    bits = wish.bits if wish.budget is not None and wish.budget.kind == "bytes" else None
    units = channel_units(groups, parts.layers, multiple_of=wish.multiple_of, least=wish.smallest, bits=bits)
    seen = look(parts.model, parts.layers, groups, parts.train)
    scorer = Channels(parts.model, parts.layers, groups, units, seen, parts.measure)
    rule = partial(by_harm, harms=foresee(scorer))
    beside = parameters_beside(parts.model, parts.layers, groups)
    costs = {
        "flops": channel_cost("flops", parts.layers, groups, units, flops_curve),
        "params": channel_cost("params", parts.layers, groups, units, params_curve, norm=1.0, fixed=float(beside)),
    }
    kind = wish.budget.kind if wish.budget is not None else wish.reward
    if kind == "bytes":
        fixed = channel_bytes_beside(parts.model, parts.layers, groups, bits=wish.bits, sizer=parts.sizer)
        costs["bytes"] = channel_cost(
            "bytes", parts.layers, groups, units, bytes_curve(wish.bits), norm=4.0, fixed=fixed
        )
    if kind == "latency":
        return _timed(parts, wish, scorer, costs, rule)
    whole = _whole_file(parts) if kind == "bytes" else costs[kind].most
    return _built(parts, wish, scorer, costs, kind, whole, rule)


def _timed(parts: _Parts, wish: Wish, scorer: Channels, costs: dict[str, Cost], rule: Rule) -> Built:
    """Layers timed one by one, and the budget aimed by networks timed as a whole."""
    assert wish.budget is not None
    units = tuple(scorer.units)
    if parts.table is None or parts.table.batch != wish.batch:
        raise CompressError("a latency budget needs a table of timed layers for its batch; give one (--latency-table)")
    time_all(parts.layers, parts.table, least=wish.smallest)
    cost = costs["latency"] = channel_cost("latency", parts.layers, scorer.groups, units, parts.table.curve)
    loose = Problem(units, clip(units, cost, cost.most), scorer)
    level_ST = np.array([at_share(loose, share) for share in _TIMED_SHARES])
    sums = [float(total) for total in cost.total(level_ST)]
    measured = in_turns_ns([scorer.cut(levels.tolist(), parts.example) for levels in level_ST], parts.batch)
    target = wish.budget.target(measured[-1])
    if target < min(measured):
        raise CompressError(
            f"{wish.budget} cannot be met: the smallest network takes {min(measured) / 1e6:.3f} ms here, the whole one "
            f"{measured[-1] / 1e6:.3f}; ask for more, or let more be pruned (--least)"
        )
    aimed = max(np.floor(aim(target, sums, measured)), cost.least)
    problem = Problem(units, clip(units, cost, aimed), scorer, _price(wish, costs), parts.samples)
    return _ruled(Built(problem, rule, scorer, costs, parts.layers, measured[-1], parts.batch))


def _weights(parts: _Parts, wish: Wish) -> Built:
    kind = wish.budget.kind if wish.budget is not None else wish.reward
    joint, coded = wish.prune == "joint", kind == "bytes"
    units = weight_units(
        parts.layers, levels=12 if joint else 24 if coded else 64, least=wish.smallest,
        patterns=PATTERNS if joint else ("fine",), bits=BITS if joint else (wish.bits if coded else None,),
    )  # fmt: skip
    scorer = Weights(parts.model, units, parts.measure)
    layers = list(parts.layers.values())
    others = sum(p.numel() for p in parts.model.parameters()) - sum(la.module.weight.numel() for la in layers)
    costs = {
        "flops": weight_cost("flops", units, [float(layer.positions) for layer in layers], fixed=0.0),
        "params": weight_cost("params", units, [1.0] * len(layers), fixed=float(others)),
    }
    if coded:
        costs["bytes"] = coded_cost(parts.model, units, scorer, parts.sizer)
    whole = {
        "flops": float(sum(layer.macs for layer in layers)), "bytes": _whole_file(parts),
        "params": float(others + sum(layer.module.weight.numel() for layer in layers)),
    }  # fmt: skip
    rule = partial(by_thresholds, weights=prunable(parts.model))
    return _built(parts, wish, scorer, costs, kind, whole[kind], rule)


def _whole_file(parts: _Parts) -> float:
    return float(dense_nbytes(parts.model))


def _built(
    parts: _Parts, wish: Wish, scorer: Channels | Weights, costs: dict[str, Cost], kind: str, whole: float, rule: Rule
) -> Built:
    """``whole`` is what the network costs with all its weights, also those that were pruned before."""
    units, cost = tuple(scorer.units), costs[kind]
    target = wish.budget.target(whole) if wish.budget is not None else cost.most
    problem = Problem(units, clip(units, cost, target), scorer, _price(wish, costs), parts.samples)
    return _ruled(Built(problem, rule, scorer, costs, parts.layers, whole, parts.batch))


def _price(wish: Wish, costs: dict[str, Cost]) -> Cost | None:
    return None if wish.reward == "error" else costs[wish.reward]
