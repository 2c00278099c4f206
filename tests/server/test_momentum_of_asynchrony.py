"""Asynchrony begets momentum: g memoryless workers move the centre as momentum 1 − 1/g would.

    E[D_{t+1}] = (1 − 1/g)·E[D_t] − (η/g)·E[∇f(w_t)]                     D_t = w_t − w_{t−1}

Mitliagkas, Zhang, Hadjis, Ré: Asynchrony begets Momentum. arXiv 1605.09774, 2016. The next to push is any worker with
equal chance, so its age is geometric with mean g − 1.
"""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from tightwire.algebra.codec import Payload
from tightwire.algebra.schedule import Meta
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.dense import dense
from tightwire.rules.add import add
from tightwire.schedules.clock import asynchronous
from tightwire.server.events import Center, Push
from tightwire.server.movers import RuleMover
from tightwire.server.shard import Shard

SPEC = Spec.pack([("w", (1,))])
RATE, STEPS, RUNS = 0.3, 25, 500


def trajectory(groups: int, dice: random.Random) -> Tensor:
    """The centre after every push on f(w) = w²/2."""
    rule = add(RATE, over="sum")
    center = {"x": Bucket(torch.ones(1), SPEC)}
    made = Shard(center, rule, RuleMover(rule, {"x": {}}, At()), asynchronous(), dense(), dense(), At())
    read, counts = [torch.ones(1) for _ in range(groups)], [0] * groups
    path = [1.0]
    for _ in range(STEPS):
        worker = dice.randrange(groups)
        push = Push(worker, counts[worker], Meta(worker, counts[worker]), {"x": read[worker].clone()})
        ((_, reply),) = made.handle(push)
        assert isinstance(reply, Center)
        out = Bucket.zeros(SPEC)
        dense().decode_(out, Payload(reply.wires["x"]), {}, At())
        read[worker] = out.flat
        counts[worker] += 1
        path.append(float(center["x"].flat))
    return torch.tensor(path, dtype=torch.float64)


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_implicit_momentum_is_recovered_by_regression(groups: int) -> None:
    dice = random.Random(groups)
    mean = torch.stack([trajectory(groups, dice) for _ in range(RUNS)]).mean(0)
    steps = mean.diff()
    # D_{t+1} on D_t and ∇f(w_t) = w_t, from the first step on
    table = torch.stack([steps[:-1], -RATE * mean[1:-1]], dim=1)
    momentum, weight = torch.linalg.lstsq(table, steps[1:].unsqueeze(1)).solution.flatten().tolist()
    assert momentum == pytest.approx(1 - 1 / groups, abs=0.05)
    assert weight == pytest.approx(1 / groups, abs=0.05)
