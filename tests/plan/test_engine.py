"""Time that is computed: waits, gates, shared cores."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.plan.engine import Busy, Engine, Gate, Process


def test_processes_wait_and_gates_let_through() -> None:
    engine, gate, seen = Engine(), Gate(2), []

    def waiter() -> Process:
        yield gate
        seen.append(("through", engine.now))

    def opener(after: float) -> Process:
        yield after
        engine.open(gate)

    for process in (waiter(), opener(1.0), opener(3.0)):
        engine.start(process)
    engine.run()
    assert seen == [("through", 3.0)]


def test_a_gate_opened_early_stays_open() -> None:
    engine, gate, seen = Engine(), Gate(0), []

    def late() -> Process:
        yield 5.0
        gate.needed += 1
        yield gate
        seen.append(engine.now)

    engine.at(1.0, engine.open, gate)
    engine.start(late())
    engine.run()
    assert seen == [5.0]


@given(st.lists(st.floats(0.1, 5.0), min_size=1, max_size=6))
def test_two_cores_do_all_the_work_and_no_more(works: list[float]) -> None:
    """Nobody is faster than alone, and together they take at least the work of two cores."""
    engine = Engine(lambda active: max(1.0, active / 2))
    ends: list[float] = []

    def worker(seconds: float) -> Process:
        yield Busy(0, seconds)
        ends.append(engine.now)

    for seconds in works:
        engine.start(worker(seconds))
    engine.run()
    assert max(ends) >= max(*works, sum(works) / 2) - 1e-9
    assert max(ends) <= max(works) + sum(works) / 2 + 1e-9
    assert all(a <= b for a, b in pairwise(ends))


def test_equal_work_on_shared_cores_ends_together() -> None:
    engine, ends = Engine(lambda active: max(1.0, active / 2)), []

    def worker() -> Process:
        yield Busy(0, 1.0)
        ends.append(engine.now)

    for _ in range(4):
        engine.start(worker())
    engine.run()
    assert ends == pytest.approx([2.0] * 4)
