"""Servers across checkpoints, other worlds and phases: several shards, rules with state, groups."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recipes.quadratic import descend
from tightwire.algebra.recipe import AnyRecipe, forever, phases
from tightwire.exchanges.server import server
from tightwire.links.loop import shuffled
from tightwire.recipes import (
    adag,
    asgd,
    backup_workers,
    bounded_delay,
    downpour,
    easgd,
    hardsync,
    mdownpour,
    omnivore,
    round_robin_easgd,
    ssp,
    sync_sgd,
)
from tightwire.recipes.entry import Paper, RecipeEntry
from tightwire.testing import recipes

ODD: dict[str, AnyRecipe] = {
    "asgd on 3 shards": asgd().but(exchange=server(3)),
    "downpour on 3 shards": downpour(2, 2, shards=3),
    "hardsync on 2 shards": hardsync().but(exchange=server(2)),
    "adag on 2 shards": adag(2).but(exchange=server(2)),
    "easgd, tau 4": easgd(tau=4),
    "backup workers, refunded": backup_workers(late="refund"),
    "downpour after a warm start": downpour(warm=4),
    "omnivore after a cold start": omnivore(2, cold=4),
}
odd = pytest.mark.parametrize("name", ODD)


def entry(name: str) -> RecipeEntry:
    return RecipeEntry(name, lambda: ODD[name], Paper("", "", ""), "", (), workers=4)


@odd
def test_resumes(name: str) -> None:
    recipes.check_resumes(entry(name))


@odd
@pytest.mark.parametrize("workers", [1, 3, 5])
def test_goes_on_in_another_world(name: str, workers: int) -> None:
    recipes.check_new_world(entry(name), workers)


@odd
def test_is_deterministic(name: str) -> None:
    recipes.check_deterministic(entry(name))


@given(seed=st.integers(0, 1000))
def test_a_recipe_that_comes_again_has_a_server_of_its_own(seed: int) -> None:
    """What happened between its two phases is not forgotten."""
    seen = descend(phases((2, hardsync()), (4, sync_sgd()), (forever, hardsync())), 3, steps=6, order=shuffled(seed))
    (plain,) = descend(sync_sgd(), 1, targets=[2.0], steps=6)
    torch.testing.assert_close(seen[0].answer, plain.answer)


BETWEEN = [asgd(), backup_workers(), bounded_delay(1), ssp(1), round_robin_easgd(), hardsync(), mdownpour(), sync_sgd()]


@settings(max_examples=40)
@given(
    first=st.sampled_from(BETWEEN[:-1]),
    second=st.sampled_from(BETWEEN),
    until=st.integers(1, 5),
    seed=st.integers(0, 10**6),
)
def test_nobody_is_left_waiting_in_a_phase_that_is_over_for_others(
    first: AnyRecipe, second: AnyRecipe, until: int, seed: int
) -> None:
    seen = descend(phases((until, first), (forever, second)), 3, lr=0.05, order=shuffled(seed))
    assert all(torch.equal(one.answer, seen[0].answer) for one in seen)
    assert torch.isfinite(seen[0].answer).all()
