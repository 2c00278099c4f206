"""Your optimizer on the server's copy: its learning rates, its groups, the tensors nobody used."""

from __future__ import annotations

import torch

from tests.server.shards import SPECS, START, flat, push, shard_with_optimizer
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.events import Leave


def test_learning_rates_follow_the_push() -> None:
    made = shard_with_optimizer(asynchronous())
    made.handle(push(0, 0, rates=(1.0, 2.0)))
    assert torch.equal(made.center["first"]["w"].flatten(), START["first"][:6] - 1)
    assert torch.equal(made.center["first"]["b"], START["first"][6:] - 2)
    assert torch.equal(made.center["second"]["v"], START["second"] - 2)
    made.handle(push(1, 0, rates=(0.0, 4.0)))
    assert torch.equal(made.center["first"]["w"].flatten(), START["first"][:6] - 1)
    assert torch.equal(made.center["second"]["v"], START["second"] - 6)


def test_without_rates_the_optimizer_keeps_its_own() -> None:
    made = shard_with_optimizer(asynchronous())
    made.handle(push(0, 0))
    assert torch.equal(made.center["second"]["v"], START["second"] - 0.25)


def test_learning_rates_follow_a_push_that_a_departure_releases() -> None:
    made = shard_with_optimizer(every_step(), workers=2)
    made.handle(push(0, 0, rates=(1.0, 2.0)))
    made.handle(Leave(1))
    assert torch.equal(made.center["second"]["v"], START["second"] - 2)


def test_your_optimizer_steps_on_the_mean_of_what_is_held() -> None:
    made = shard_with_optimizer(every_step(), lambda groups: torch.optim.SGD(groups, momentum=0.5), workers=2)
    alone = shard_with_optimizer(asynchronous(), lambda groups: torch.optim.SGD(groups, momentum=0.5))
    for clock in range(4):
        for worker, value in ((1, 3.0), (0, 1.0)):
            made.handle(push(worker, clock, value))
        alone.handle(push(0, clock, 2.0))
    assert torch.equal(flat(made), flat(alone))


def test_a_tensor_that_nobody_used_is_left_alone() -> None:
    made = shard_with_optimizer(every_step(), lambda groups: torch.optim.SGD(groups, weight_decay=0.5), workers=2)
    gradients = {label: torch.ones(spec.numel) for label, spec in SPECS.items()} | {"second": torch.zeros(4)}
    for clock, unused in enumerate((("v",), ())):
        made.handle(push(0, clock, gradients, unused=frozenset({"v"})))
        made.handle(push(1, clock, gradients, unused=frozenset(unused)))
        assert torch.equal(made.center["second"]["v"], START["second"]) == (unused == ("v",))
    assert not torch.equal(made.center["first"]["w"].flatten(), START["first"][:6])
