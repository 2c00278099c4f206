"""The laws of schedules."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.schedule import Meta, Schedule, Verdict, View


def check_all(schedule: Schedule) -> None:
    """Every law."""
    for law in (due_by_clock_alone, everybody_is_served):
        law(schedule)


def due_by_clock_alone(schedule: Schedule) -> None:
    """Asking does not change the answer, and an exchange comes again and again."""
    first = [schedule.due(clock) for clock in range(200)]
    assert [schedule.due(clock) for clock in range(200)] == first
    if not schedule.lockstep:  # who exchanges only together may do so at the end alone
        assert any(due.push for due in first), "nothing is ever pushed"
        assert any(due.pull for due in first[100:]), "the centre is never read again"


def everybody_is_served(schedule: Schedule) -> None:
    """In whatever order workers push and then read, each is served, and nothing is held for ever."""

    @given(st.integers(1, 5).flatmap(lambda workers: st.permutations(range(workers))), st.integers(1, 3))
    def law(order: list[int], rounds: int) -> None:
        view = View(clocks=dict.fromkeys(order, 0))
        for clock in range(rounds):
            waiting = []
            for worker in order:
                meta = Meta(worker, clock, view.version)
                view = replace(view, clocks={**view.clocks, worker: clock + 1})
                match schedule.admit(view, meta):
                    case Verdict.APPLY:
                        view = replace(view, version=view.version + 1, held=())
                    case Verdict.HOLD:
                        view = replace(view, held=(*view.held, meta))
                    case Verdict.DROP:
                        pass
                waiting.append(meta)
                waiting = [held for held in waiting if not schedule.serve(view, held)]
            assert not waiting, f"after everybody's push {waiting} still wait"
            assert not view.held, f"after everybody's push {view.held} are still held"

    law()
