"""The balancer finds the best of all cuts, and says what limits it."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tightwire.algebra.errors import RecipeError
from tightwire.splits.balance import Layer, Machine, balance, bound, measure, whole_layers

costs = st.lists(st.sampled_from([0.1, 1.0, 2.0, 3.0, 8.0]), min_size=1, max_size=7)
PAPER = [Layer("fc1", 462 * 2048), *(Layer(f"fc{k}", 2048 * 2048) for k in range(2, 8)), Layer("fc8", 2048 * 10217)]
DIVISIBLE = [*PAPER[:-1], Layer("fc8", 2048 * 10217, columns=10217)]


@given(costs, st.integers(1, 5), st.sampled_from([float("inf"), 10.0]))
def test_no_other_cuts_are_faster(seconds: list[float], stages: int, rate: float) -> None:
    stages = min(stages, len(seconds))
    layers = [Layer(str(k), cost, given_nbytes=5 * k) for k, cost in enumerate(seconds)]
    machine = Machine(rate)
    found, cuts = whole_layers(layers, stages, machine)
    assert len(cuts) == stages - 1

    def slowest(edges: tuple[int, ...]) -> float:
        parts = [sum(seconds[lo:hi]) for lo, hi in pairwise((0, *edges, len(seconds)))]
        return max([*parts, *(2 * 5 * edge / rate for edge in edges)])

    assert found == pytest.approx(min(slowest(edges) for edges in combinations(range(1, len(seconds)), stages - 1)))
    assert slowest(cuts) == pytest.approx(found)


@pytest.mark.parametrize(("workers", "best"), [(2, 1.87), (4, 2.25), (8, 2.25)])
def test_whole_layers_of_the_paper_cannot_reach_its_speed(workers: int, best: float) -> None:
    plan = balance(PAPER, workers)
    assert plan.speedup == pytest.approx(best, abs=0.005)
    assert not plan.cut.wide
    if workers > 2:
        assert plan.why.startswith(
            "fc8 alone is 44.5% of the work: whole-layer cutting is limited to 2.25×; split it over"
        )


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_columns_balance_it(workers: int) -> None:
    plan = balance(DIVISIBLE, workers)
    assert plan.speedup > 0.98 * workers
    assert len(plan.cut.columns) == plan.cut.wide == workers and sum(plan.cut.columns) == 10217
    assert plan.stages >= 3
    assert f"dealt out over {workers} it reaches" in plan.why


def test_of_equally_fast_plans_the_one_with_fewest_stages_is_taken() -> None:
    layers = [Layer("a", 1.0), Layer("b", 1.0), Layer("c", 98.0, columns=1000)]
    assert balance(layers, 4).stages == 2


def test_a_narrow_wire_keeps_layers_together() -> None:
    layers = [Layer("a", 1.0), Layer("b", 1.0, given_nbytes=100), Layer("c", 1.0, given_nbytes=1)]
    _, fast = whole_layers(layers, 2, Machine())
    _, slow = whole_layers(layers, 2, Machine(bytes_per_second=10.0))
    assert (fast, slow) == ((1,), (2,))


def test_memory_is_a_limit() -> None:
    """The first of two stages keeps three minibatches, the last one."""
    layers = [Layer("a", 1.0, 10, 100), Layer("b", 1.0, 10, 100), Layer("c", 1.0, 10, 100)]
    assert whole_layers(layers, 2, Machine(memory_nbytes=220))[1] == (1,)
    with pytest.raises(RecipeError, match="no way to cut 3 layers for 2 workers fits into 150 bytes"):
        balance(layers, 2, Machine(memory_nbytes=150))


def test_the_bound_says_which_layer_is_to_blame() -> None:
    limit, why = bound([Layer("big", 6.0), Layer("small", 2.0), Layer("tiny", 2.0)], 4)
    assert limit == pytest.approx(10 / 6)
    assert why == "big alone is 60.0% of the work: whole-layer cutting is limited to 1.67×; split it over 3 workers"
    assert "no layer is more than 1/2" in bound([Layer("a", 1.0), Layer("b", 1.0)], 2)[1]


def test_layers_are_timed_there_and_back_without_being_changed() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 512))
    before = [weight.detach().clone() for weight in model.parameters()]
    found = measure(model, torch.randn(32, 64), torch.randint(512, (32,)), rounds=2)
    assert [layer.columns for layer in found] == [0, 256, 0, 512]
    assert found[3].seconds > found[2].seconds > 0
    assert found[3].given_nbytes == 4 * 32 * 256
    for weight, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(weight, old)
        assert weight.grad is None


def test_of_equally_fast_cuts_even_ones_are_taken() -> None:
    layers = [Layer("flat", 0.0), Layer("a", 1.0), Layer("b", 1.0), Layer("wide", 5.0)]
    assert whole_layers(layers, 3, Machine()) == (5.0, (2, 3))
