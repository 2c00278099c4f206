"""How the centre moves, what is sent to it, how it is taken, and your optimizer for somebody else's tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.rules.add import add
from tightwire.rules.adopt import overwrite
from tightwire.rules.average import average
from tightwire.rules.signals import gradient, progress, weights
from tightwire.rules.signed import signed
from tightwire.rules.yours import optimizer_like, rates, yours

SPEC = Spec.pack([("w", (2, 2))])
Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda groups: torch.optim.SGD(groups, lr=0.1),
    "SGD momentum": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.01),
    "SGD Nesterov": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda groups: torch.optim.Adam(groups, lr=0.01, betas=(0.8, 0.99), amsgrad=True),
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1),
    "Adagrad": lambda groups: torch.optim.Adagrad(groups, lr=0.1, initial_accumulator_value=0.5),
    "RMSprop": lambda groups: torch.optim.RMSprop(groups, lr=0.01, momentum=0.5, centered=True),
    "Adadelta": lambda groups: torch.optim.Adadelta(groups, rho=0.8),
    "NAdam": lambda groups: torch.optim.NAdam(groups, lr=0.01),
}
every_optimizer = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=list(OPTIMIZERS))
PART_OF_THE_GROUPS = [
    ({"0.weight"}, (0,)),
    ({"0.bias", "2.bias"}, (1,)),
    ({"2.weight", "2.bias"}, (0, 1)),
    (set(), ()),
]


def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def grouped(net: nn.Module) -> list[dict[str, Any]]:
    named = dict(net.named_parameters())
    return [
        {"params": [named["0.weight"], named["2.weight"]], "weight_decay": 0.05},
        {"params": [named["0.bias"], named["2.bias"]], "lr": 0.02},
    ]


def give_gradients(tensors: Mapping[str, Tensor], step: int) -> None:
    for place, (_, tensor) in enumerate(sorted(tensors.items())):
        generator = torch.Generator().manual_seed(100 * step + place)
        tensor.grad = torch.randn(tensor.shape, generator=generator)


def like(
    optimizer: torch.optim.Optimizer, net: nn.Module, only: set[str] | None = None
) -> tuple[tuple[Any, tuple[int, ...]], dict[str, nn.Parameter]]:
    names: dict[Tensor, str] = {tensor: name for name, tensor in net.named_parameters()}
    copies = {
        name: nn.Parameter(tensor.detach().clone())
        for name, tensor in net.named_parameters()
        if only is None or name in only
    }
    return optimizer_like(optimizer, names, copies), copies


@every_optimizer
def test_an_optimizer_like_yours_steps_as_yours_does(make: Make) -> None:
    net = model()
    optimizer = make(grouped(net))
    (other, groups), copies = like(optimizer, net)
    assert type(other) is type(optimizer)
    assert groups == (0, 1)
    for step in range(5):
        give_gradients(dict(net.named_parameters()), step)
        give_gradients(copies, step)
        optimizer.step()
        other.step()
        for name, tensor in net.named_parameters():
            assert torch.equal(tensor, copies[name]), f"{name} at step {step}"


@every_optimizer
def test_an_optimizer_like_yours_has_your_settings_and_its_own_state(make: Make) -> None:
    net = model()
    optimizer = make(grouped(net))
    give_gradients(dict(net.named_parameters()), 0)
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict())
    (other, _), copies = like(optimizer, net)
    for mine, theirs in zip(other.param_groups, optimizer.param_groups, strict=True):
        assert {k: v for k, v in mine.items() if k != "params"} == {k: v for k, v in theirs.items() if k != "params"}
    give_gradients(copies, 1)
    other.step()
    assert str(optimizer.state_dict()) == str(before)


@pytest.mark.parametrize(("only", "groups"), PART_OF_THE_GROUPS)
def test_only_the_groups_of_the_copied_tensors_are_taken_over(only: set[str], groups: tuple[int, ...]) -> None:
    net = model()
    (other, taken), copies = like(torch.optim.SGD(grouped(net), lr=0.1), net, only)
    assert taken == groups
    held = [tensor for group in other.param_groups for tensor in group["params"]]
    assert {id(tensor) for tensor in held} == {id(tensor) for tensor in copies.values()}


def test_changing_the_learning_rate_of_one_leaves_the_other() -> None:
    net = model()
    optimizer = torch.optim.SGD(grouped(net), lr=0.1)
    (other, _), _ = like(optimizer, net)
    other.param_groups[0]["lr"] = 7.0
    assert rates(optimizer) == (0.1, 0.02)
    assert rates(other) == (7.0, 0.02)


def test_a_scheduler_moves_the_rates_that_are_sent() -> None:
    net = model()
    optimizer = torch.optim.SGD(grouped(net), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert rates(optimizer) == (0.05, 0.01)


def test_the_state_of_the_copy_can_be_saved_and_loaded() -> None:
    net = model()
    optimizer = torch.optim.AdamW(grouped(net), lr=0.01)
    (one, _), copies = like(optimizer, net)
    give_gradients(copies, 0)
    one.step()
    (two, _), others = like(optimizer, net)
    with torch.no_grad():
        for name, tensor in others.items():
            tensor.copy_(copies[name])
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for tensors, stepping in ((copies, one), (others, two)):
        give_gradients(tensors, 1)
        stepping.step()
    assert all(torch.equal(copies[name], others[name]) for name in copies)


class Halved(torch.optim.SGD):
    """An optimizer with a setting that is in no group."""

    def __init__(self, params: Any, lr: float, factor: float) -> None:
        super().__init__(params, lr=lr)
        self.factor = factor

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for tensor in group["params"]:
                tensor.grad.mul_(self.factor)
        super().step(closure)


def test_an_optimizer_of_your_own_keeps_its_attributes() -> None:
    net = model()
    (other, _), copies = like(Halved(net.parameters(), 0.1, 0.5), net)
    give_gradients(copies, 0)
    other.step()
    assert other.factor == 0.5


@pytest.mark.parametrize(
    ("rule", "weight"), [(add(), 0.25), (add(over="sum"), 1.0), (average(), 0.25), (yours(), 0.25)], ids=str
)
def test_contributions_weigh_alike_however_stale(rule: Any, weight: float) -> None:
    assert [rule.weigh(staleness, 4) for staleness in range(3)] == [weight] * 3
    assert rule.weigh(0, 1) == 1.0


def test_adding_subtracts_what_is_sent_at_its_rate() -> None:
    center = Bucket(torch.tensor([1.0, 2.0, 3.0, 4.0]), SPEC)
    add(0.5).step_(center, Bucket(torch.tensor([2.0, 0.0, -2.0, 4.0]), SPEC), {}, At())
    assert center.flat.tolist() == [0.0, 2.0, 4.0, 2.0]


def test_the_average_of_progress_is_the_average_of_weights() -> None:
    start, ends = torch.tensor([1.0, 2.0, 3.0, 4.0]), [torch.randn(4) for _ in range(4)]
    moved, mean = Bucket(start.clone(), SPEC), Bucket(start.clone(), SPEC)
    sums = {signal: torch.zeros(4) for signal in (progress(), weights())}
    for signal, total in sums.items():
        for end in ends:
            sent = torch.empty(4)
            signal.fill_(sent, end, start if signal.needs_center else None, 1 / len(ends))
            total.add_(sent)
    add().step_(moved, Bucket(sums[progress()], SPEC), {}, At())
    average().step_(mean, Bucket(sums[weights()], SPEC), {}, At())
    torch.testing.assert_close(moved.flat, mean.flat)
    torch.testing.assert_close(mean.flat, torch.stack(ends).mean(0))


def test_an_average_in_place_stays_where_it_is() -> None:
    shared = Bucket(torch.tensor([1.0, 2.0, 3.0, 4.0]), SPEC)
    average().step_(shared, shared, {}, At())
    assert shared.flat.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_worker_that_overwrites_is_at_the_centre_and_shares_no_memory_with_it() -> None:
    weight, center = torch.zeros(3), torch.tensor([1.0, 2.0, 3.0])
    overwrite().adopt_(weight, center, At())
    center.zero_()
    assert weight.tolist() == [1.0, 2.0, 3.0]


def test_what_only_the_runtime_can_do_is_refused() -> None:
    with pytest.raises(AssertionError, match="the runtime steps"):
        yours().step_(Bucket.zeros(SPEC), Bucket.zeros(SPEC), {}, At())
    with pytest.raises(AssertionError, match="from the backward pass"):
        gradient().fill_(torch.zeros(1), torch.zeros(1), None, 1.0)


def test_on_signs_every_coordinate_moves_by_the_rate() -> None:
    weight, gradient_ = torch.zeros(4), torch.tensor([3.0, -0.001, 0.0, 1e-30])
    signed().prepare_(weight, gradient_, {})
    assert gradient_.tolist() == [1.0, -1.0, 0.0, 1.0]
    assert signed(0.5).rate(At()) == 0.5
