"""A policy put into effect: channels cut out of a network, or a plan for `shrink` that prunes what the policy says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.plan import Plan
from tightwire.compress.retrain import Examples
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import seen_for_norms
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.groups import find_groups
from tightwire.compress.search.layers import read_layers
from tightwire.compress.search.measure import Measure
from tightwire.compress.search.policy import Policy
from tightwire.compress.search.seen import Seen, look
from tightwire.compress.search.units import Choice, Unit


def planned(plan: Plan, policy: Policy, *, dense_nbytes: int) -> Plan:
    """The plan with the policy's densities, patterns and bits in it; a budget of bytes becomes a limit of the file."""
    if plan.density is not None or plan.ratio is not None or plan.max_loss is not None:
        raise CompressError("a policy says how small; leave out --prune, --target-ratio and --max-loss")
    named = {row.layer: row for row in policy.layers}
    made = replace(plan, most_nbytes=_most_nbytes(policy, dense_nbytes))
    if policy.prune == "channels":
        bits = next((row.bits for row in policy.layers if row.bits is not None), None)
        return replace(made, density=1.0, centroids=plan.centroids if bits is None else (1 << bits) - 1)
    return replace(
        made,
        layers={name: row.ratio for name, row in named.items()},
        layer_patterns={name: row.pattern for name, row in named.items() if row.pattern != "fine"},
        layer_centroids={name: 1 << row.bits for name, row in named.items() if row.bits is not None},
    )


def _most_nbytes(policy: Policy, dense_nbytes: int) -> int | None:
    budget = parse_budget(policy.budget) if policy.budget else None
    return int(budget.target(dense_nbytes)) if budget is not None and budget.kind == "bytes" else None


def cut_by(policy: Policy, model: nn.Module, example: Tensor, train: Examples | None) -> nn.Module:
    """A copy without the policy's channels; with samples, what is left is refitted, norms by what they see now."""
    layers = read_layers(model, example)
    groups = find_groups(model, layers, example)
    asked = {row.layer: row for row in policy.layers}
    _same(sorted(asked), sorted(group.name for group in groups))
    units = []
    for group in groups:
        row = asked[group.name]
        if row.of != group.width or row.kept % group.parts:
            raise CompressError(f"{group.name} has {group.width} channels; the policy keeps {row.kept} of {row.of}")
        choice = Choice(row.ratio, row.kept, "channels")
        units.append(Unit(group.name, layers[group.name].shape, group.width, (1,), (choice,)))
    seen = look(model, layers, groups, train) if train is not None else Seen()
    held = train if train is not None else Examples(example, example.new_zeros(len(example)).long())
    measure = Measure(model, held, seen_N=seen_for_norms(train) if train is not None else None)
    return Channels(model, layers, groups, units, seen, measure).cut([0] * len(units), example)


def _same(asked: Sequence[str], found: Sequence[str]) -> None:
    if asked != found:
        unknown = sorted(set(asked) ^ set(found))
        raise CompressError(f"the policy is of another network: {', '.join(unknown[:3])} differ; search again")


def example_of(model: nn.Module, inputs: tuple[int, ...]) -> Tensor:
    """One input of zeros where the network is."""
    return torch.zeros(1, *inputs, device=next(model.parameters()).device)
