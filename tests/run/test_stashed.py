"""Schedules with several versions of the weights do what their equations say; with a flush gradients are exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from tightwire.algebra.errors import UsageError
from tightwire.algebra.recipe import Recipe
from tightwire.recipes import gpipe, one_forward_one_backward, pipedream, pipedream_2bw
from tightwire.run.join import join
from tightwire.run.pipeline import Passed
from tightwire.run.together import together

STEPS, RATE, BATCH = 9, 0.3, 12
Weights = dict[str, Tensor]


def network(stages: int) -> nn.Sequential:
    torch.manual_seed(5)
    layers = [nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(stages)]
    return nn.Sequential(*layers)


def batches() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(6)
    return [(torch.randn(BATCH, 5), torch.randn(BATCH, 5)) for _ in range(STEPS)]


def trained(recipe: Recipe, stages: int, *, drain_after: int | None = None) -> list[tuple[Weights, list[Passed]]]:
    def one(rank: int) -> tuple[Weights, list[Passed]]:
        model = network(stages)
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=RATE)) as wire:
            for step, (x, y) in enumerate(batches()):
                wire.step(wire.batch(x, y, F.mse_loss))
                if step == drain_after:
                    wire.drain()
            wire.drain()
            assert wire.pipeline is not None
            trace = wire.pipeline.trace
        return {name: weight.detach().clone() for name, weight in model.named_parameters()}, trace

    return together(stages, one)


def by_hand(stages: int, seen: Callable[[int, int], int]) -> Weights:
    """SGD whose gradient of batch t is taken where stage s has had ``seen(s, t)`` updates."""
    model = network(stages)
    history = [{name: weight.detach().clone() for name, weight in model.named_parameters()}]
    for t, (x, y) in enumerate(batches()):
        at = {name: history[max(0, seen(int(name[0]), t))][name].clone().requires_grad_() for name in history[0]}
        F.mse_loss(functional_call(model, at, (x,)), y).backward()
        history.append({name: history[-1][name] - RATE * at[name].grad for name in at})  # type: ignore[operator]
    return history[-1]


def assert_same(got: Weights, wanted: Weights) -> None:
    for name, weight in wanted.items():
        torch.testing.assert_close(got[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_pipedream_goes_back_through_the_weights_it_went_forward_through(stages: int) -> None:
    results = trained(pipedream(stages), stages)
    assert_same(results[0][0], by_hand(stages, lambda stage, t: t - (stages - 1 - stage)))
    for stage, (_, trace) in enumerate(results):
        assert [passed.minibatch for passed in trace] == list(range(STEPS))
        for passed in trace[stages:]:
            assert passed.backward_version - passed.forward_version == stages - 1 - stage


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_with_vertical_sync_all_stages_see_one_version(stages: int) -> None:
    results = trained(pipedream(stages, sync="vertical"), stages)
    assert_same(results[0][0], by_hand(stages, lambda stage, t: t - (stages - 1)))
    for _, trace in results:
        for passed in trace:
            assert passed.forward_version == max(0, passed.minibatch - stages + 1)


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 2), (2, 4), (3, 3), (3, 4), (4, 4)])
def test_two_versions_are_one_update_old_everywhere(stages: int, microbatches: int) -> None:
    results = trained(pipedream_2bw(stages, microbatches=microbatches), stages)
    assert_same(results[0][0], by_hand(stages, lambda stage, t: t - 1))


def test_one_stage_of_two_versions_is_not_old_at_all() -> None:
    def one(rank: int) -> Weights:
        model = network(1)
        with join(pipedream_2bw(1, microbatches=4), model, torch.optim.SGD(model.parameters(), lr=RATE)) as wire:
            for x, y in batches():
                wire.batch(x, y, F.mse_loss)
                wire.step()
        return {name: weight.detach() for name, weight in model.named_parameters()}

    assert_same(together(1, one)[0], by_hand(1, lambda stage, t: t))


@settings(max_examples=12)
@given(st.sampled_from([gpipe, one_forward_one_backward]), st.integers(2, 4), st.integers(1, 12))
def test_a_flush_gives_the_gradient_of_one_device(make: Callable[..., Recipe], stages: int, microbatches: int) -> None:
    results = trained(make(stages, microbatches=microbatches), stages)
    assert_same(results[0][0], by_hand(stages, lambda stage, t: t))


def test_after_a_drain_versions_are_counted_anew() -> None:
    stages, halfway = 3, 4
    results = trained(pipedream(stages, sync="vertical"), stages, drain_after=halfway)
    first = halfway + 1

    def seen(stage: int, t: int) -> int:
        return t - (stages - 1) if t < first else max(first, t - (stages - 1))

    assert_same(results[0][0], by_hand(stages, seen))


def test_a_batch_that_cannot_be_cut_is_refused() -> None:
    def one(rank: int) -> None:
        model = network(2)
        with join(gpipe(2, microbatches=4), model, torch.optim.SGD(model.parameters(), lr=RATE)) as wire:
            wire.batch(torch.zeros(3, 5), torch.zeros(3, 5), F.mse_loss)

    with pytest.raises(UsageError, match="tensors of at least 4 samples"):
        together(2, one)


def test_the_loss_is_that_of_the_whole_batch() -> None:
    def one(rank: int) -> float | None:
        model = network(2)
        with join(gpipe(2, microbatches=5), model, torch.optim.SGD(model.parameters(), lr=RATE)) as wire:
            x, y = batches()[0]
            loss = wire.batch(x, y, F.mse_loss)
            return None if loss is None else float(loss)

    x, y = batches()[0]
    first, last = together(2, one)
    assert first is None
    assert last == pytest.approx(float(F.mse_loss(network(2)(x), y).detach()), rel=1e-6)
