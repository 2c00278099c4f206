"""Shards, pushes, and a look at the centre: what the tests of the server share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.laws.breaking import nobody
from tightwire.algebra.codec import Codec, drive
from tightwire.algebra.rule import Rule
from tightwire.algebra.schedule import Meta, Schedule
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.dense import dense
from tightwire.rules.add import add
from tightwire.rules.yours import yours
from tightwire.server.events import Enter, Push
from tightwire.server.movers import OptimizerMover, RuleMover
from tightwire.server.shard import Shard

SPECS = {"first": Spec.pack([("w", (2, 3)), ("b", (2,))]), "second": Spec.pack([("v", (4,))])}
START = {label: torch.arange(spec.numel, dtype=torch.float32) for label, spec in SPECS.items()}


ORIGIN = torch.cat(list(START.values()))
SUM, DENSE = add(over="sum"), dense()


def centers() -> dict[str, Bucket]:
    return {label: Bucket(START[label].clone(), spec) for label, spec in SPECS.items()}


def shard(schedule: Schedule, rule: Rule = SUM, *, up: Codec = DENSE, down: Codec = DENSE, workers: int = 0) -> Shard:
    """A shard that is moved by a rule of ours, with some workers inside."""
    center = centers()
    mover = RuleMover(rule, {label: rule.init(bucket.spec) for label, bucket in center.items()}, At())
    made = Shard(center, rule, mover, schedule, up, down, At())
    for worker in range(workers):
        made.handle(Enter(worker))
    return made


def shard_with_optimizer(
    schedule: Schedule,
    make: Callable[[list[dict[str, Any]]], torch.optim.Optimizer] = torch.optim.SGD,
    workers: int = 0,
) -> Shard:
    """A shard that is moved by an optimizer with one group for matrices and one for the others."""
    center = centers()
    tensors = {name: nn.Parameter(view.clone()) for bucket in center.values() for name, view in bucket.items()}
    groups: list[dict[str, Any]] = [
        {"params": [tensors["w"]], "lr": 0.5},
        {"params": [tensors["b"], tensors["v"]], "lr": 0.25},
    ]
    optimizer = make(groups)
    names: dict[Tensor, str] = {tensor: name for name, tensor in tensors.items()}
    made = Shard(center, yours(), OptimizerMover(center, optimizer, names, yours()), schedule, dense(), dense(), At())
    for worker in range(workers):
        made.handle(Enter(worker))
    return made


def wires(value: float | dict[str, Tensor], codec: Codec = DENSE) -> dict[str, Tensor]:
    made = {}
    for label, spec in SPECS.items():
        flat = torch.full((spec.numel,), value) if isinstance(value, float) else value[label]
        made[label] = drive(codec.encode(Bucket(flat, spec), {}, At()), nobody).payload.wire
    return made


def push(worker: int, sequence: int, value: float | dict[str, Tensor] = 1.0, version: int = 0, **more: Any) -> Push:
    return Push(worker, sequence, Meta(worker, sequence, version), wires(value), **more)


def flat(made: Shard) -> Tensor:
    return torch.cat([bucket.flat for bucket in made.center.values()])
