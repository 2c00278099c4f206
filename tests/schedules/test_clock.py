"""Schedules that look at clocks: what is due when, who is held, who is served."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.schedule import Due, Meta, Verdict, View
from tightwire.schedules.clock import asynchronous, every, every_step


@given(st.integers(1, 50), st.integers(0, 1000))
def test_every_tau_steps_everybody_pushes_and_pulls(tau: int, clock: int) -> None:
    due = every(tau).due(clock)
    assert due == Due(push=(clock + 1) % tau == 0, pull=(clock + 1) % tau == 0, before_local=False)


@given(st.integers(1, 50), st.integers(1, 20))
def test_in_so_many_periods_there_are_so_many_exchanges(tau: int, periods: int) -> None:
    assert sum(every(tau).due(clock).push for clock in range(tau * periods)) == periods


def test_every_step_is_every_one() -> None:
    assert every_step() == every(1)
    assert every_step().due(0).push


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))
def test_pushes_and_fetches_have_periods_of_their_own(push: int, fetch: int, clock: int) -> None:
    due = asynchronous(push=push, fetch=fetch).due(clock)
    assert (due.push, due.pull) == ((clock + 1) % push == 0, (clock + 1) % fetch == 0)


@given(st.permutations(range(4)))
def test_a_server_holds_contributions_until_all_are_there(order: list[int]) -> None:
    view, verdicts = View(clocks=dict.fromkeys(range(4), 0)), []
    for worker in order:
        verdicts.append(every_step().admit(view, Meta(worker, 0)))
        view = View(clocks=view.clocks, held=(*view.held, Meta(worker, 0)))
    assert verdicts == [Verdict.HOLD] * 3 + [Verdict.APPLY]


def test_nobody_is_held_for_a_worker_that_is_not_there() -> None:
    alone = View(clocks={0: 3})
    assert every_step().admit(alone, Meta(0, 3)) is Verdict.APPLY
    assert every_step().admit(View(clocks={0: 3, 1: 3}), Meta(0, 3)) is Verdict.HOLD


def test_a_worker_whose_contribution_is_held_is_not_served() -> None:
    view = View(clocks={0: 1, 1: 0}, held=(Meta(0, 0),))
    assert not every_step().serve(view, Meta(0, 0))
    assert every_step().serve(view, Meta(1, 0))


@given(st.integers(0, 5), st.integers(0, 100), st.integers(0, 100))
def test_without_waiting_everything_is_applied_and_everybody_served(worker: int, clock: int, version: int) -> None:
    view = View(version=200, clocks={0: 0, 1: 50}, held=(Meta(1, 0),))
    assert asynchronous().admit(view, Meta(worker, clock, version)) is Verdict.APPLY
    assert asynchronous().serve(view, Meta(worker, clock, version))


def test_only_schedules_that_move_together_can_serve_collectives() -> None:
    assert every(5).lockstep
    assert not asynchronous().lockstep


def test_staleness_counts_updates_of_the_centre() -> None:
    assert View(version=7).staleness(Meta(0, 3, version=5)) == 2


@pytest.mark.parametrize("tau", [0, -1])
def test_a_period_below_one_is_refused(tau: int) -> None:
    with pytest.raises(RecipeError, match=f"tau={tau}"):
        every(tau)
    with pytest.raises(RecipeError, match=f"push={tau}, fetch=1"):
        asynchronous(push=tau)
    with pytest.raises(RecipeError, match=f"push=1, fetch={tau}"):
        asynchronous(fetch=tau)
