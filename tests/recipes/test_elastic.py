"""Elastic averaging with a server: what springs conserve, where they pull, and that turns make it deterministic."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.recipes.quadratic import SHAPE, Descent, descend, start
from tightwire.algebra.recipe import Recipe
from tightwire.links.loop import in_turn, shuffled
from tightwire.recipes import async_easgd, async_measgd, eamsgd, easgd, round_robin_easgd

ALL = [easgd, eamsgd, async_easgd, async_measgd, round_robin_easgd]
every_kind = pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)


def scattered(rank: int) -> Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(rank + 1))


@every_kind
@given(seed=st.integers(0, 1000), workers=st.integers(1, 4), beta=st.floats(0.1, 1.0))
def test_without_gradients_the_sum_of_all_and_the_centre_is_conserved(
    make: type[Recipe], seed: int, workers: int, beta: float
) -> None:
    seen = descend(make(beta, tau=2), workers, pull=0.0, start=scattered, order=shuffled(seed))
    before = start() + sum(scattered(rank) for rank in range(workers))
    after = seen[0].answer + sum(one.weights[-1] for one in seen)
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)


@every_kind
@given(seed=st.integers(0, 1000))
def test_the_centre_moves_towards_the_workers_and_they_towards_it(make: type[Recipe], seed: int) -> None:
    def away(rank: int) -> Tensor:
        return start() + 1.0

    seen = descend(make(0.6, tau=1), 3, steps=1, pull=0.0, start=away, order=shuffled(seed))
    assert (seen[0].answer > start()).all()
    for rank, one in enumerate(seen):
        assert (one.weights[0] < away(rank)).all()
        assert (one.weights[0] > start()).all(), "a spring pulls, it does not carry to the centre"


@every_kind
def test_where_all_are_equal_and_nothing_pulls_nothing_moves(make: type[Recipe]) -> None:
    for one in descend(make(0.9, tau=1), 3, pull=0.0):
        torch.testing.assert_close(one.answer, start())
        torch.testing.assert_close(one.weights[-1], start())


@every_kind
@given(seed=st.integers(0, 1000))
def test_without_springs_workers_are_alone(make: type[Recipe], seed: int) -> None:
    together = descend(make(0.0, tau=1), 3, order=shuffled(seed))
    for rank, one in enumerate(together):
        (alone,) = descend(make(0.0, tau=1), 1, targets=[rank + 1])
        assert torch.equal(one.weights[-1], alone.weights[-1])
        assert torch.equal(one.answer, start())


def test_gradients_are_those_of_before_the_spring() -> None:
    (seen,) = descend(easgd(0.5, tau=1), 1, steps=1, lr=0.1, targets=[3.0], start=scattered)
    x, c = scattered(0), start()
    torch.testing.assert_close(seen.weights[0], x - 0.5 * (x - c) - 0.1 * (x - 3.0))
    torch.testing.assert_close(seen.answer, c + 0.5 * (x - c))


def test_the_velocity_survives_the_spring() -> None:
    (seen,) = descend(async_measgd(0.5, momentum=0.9), 1, steps=2, lr=0.1, targets=[3.0])
    x, c, v = start(), start(), torch.zeros(SHAPE)
    for _ in range(2):
        v = 0.9 * v - 0.1 * (x - 3.0)
        x, c = x + v - 0.5 * (x - c), c + 0.5 * (x - c)
    torch.testing.assert_close(seen.weights[1], x)


def test_eamsgd_takes_the_steps_of_nesterov() -> None:
    (seen,) = descend(eamsgd(0.0, momentum=0.9), 1, steps=5)
    (plain,) = descend(easgd(0.0), 1, steps=5, momentum=0.9, nesterov=True)
    assert torch.equal(seen.weights[-1], plain.weights[-1])


@given(seed=st.integers(0, 1000), workers=st.integers(1, 4), tau=st.integers(1, 3))
def test_in_turn_whatever_the_order(seed: int, workers: int, tau: int) -> None:
    """The original EASGD is Async EASGD under a forced round-robin schedule, whoever is ready first."""
    turns = descend(round_robin_easgd(tau=tau), workers, order=shuffled(seed))
    forced = descend(async_easgd(tau=tau), workers, order=in_turn)
    for one, other in zip(turns, forced, strict=True):
        assert torch.equal(one.answer, other.answer)
        assert torch.equal(one.weights[-1], other.weights[-1])


def test_async_easgd_does_depend_on_the_order() -> None:
    answers = [descend(async_easgd(), 3, order=shuffled(seed))[0].answer for seed in range(6)]
    assert any(not torch.equal(answer, answers[0]) for answer in answers)


@pytest.mark.parametrize(("beta", "stable"), [(0.6, True), (0.75, False)])
def test_the_bound_of_round_robin_is_tight(beta: float, stable: bool) -> None:
    """On f = x²/2 with η = 1 the spring may be as strong as α = (4 − 2η)/(4 − η) = 2/3."""

    def far(seen: Descent) -> float:
        return float((seen.weights[-1] - 1).abs().max())

    (seen,) = descend(round_robin_easgd(beta), 1, steps=200, lr=1.0)
    assert (far(seen) < 1e-3) == stable


@every_kind
def test_an_exchange_sends_the_model_once_each_way(make: type[Recipe]) -> None:
    for one in descend(make(tau=3), 2, steps=6):
        assert one.tx_bytes == one.rx_bytes == 2 * 4 * 12
