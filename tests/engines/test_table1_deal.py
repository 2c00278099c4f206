"""Columns move to those who wait, and trials settle on machines whose cores differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.engines.table1_deal import TRIALS, Planned, Trial, rebalanced

WORKERS = st.lists(st.tuples(st.integers(0, 500), st.floats(0.1, 2.0), st.floats(0.6, 3.0)), min_size=1, max_size=8)


@given(WORKERS, st.floats(0.001, 0.5))
def test_columns_move_to_those_who_wait(workers: list[tuple[int, float, float]], column_s: float) -> None:
    columns = tuple(count for count, _, _ in workers)
    planned = Planned(tuple(layers for _, layers, _ in workers), column_s)
    busy = [pace * (layers + count * column_s) for count, layers, pace in workers]
    moved = rebalanced([Trial(1, columns, tuple(busy))], planned)
    assert sum(moved) == sum(columns) and min(moved) >= 0
    after = [pace * (layers + now * column_s) for (_, layers, pace), now in zip(workers, moved, strict=True)]
    assert max(after) <= max(busy) * (1 + 1e-9) + 3 * column_s


def test_balanced_workers_keep_their_columns() -> None:
    planned = Planned((0.5, 1.0, 0.0), 0.03)
    assert rebalanced([Trial(1, (10, 0, 30), (1.0, 1.0, 1.0))], planned) == (10, 0, 30)


def test_trials_of_other_minibatches_do_not_count_and_the_rest_is_averaged() -> None:
    planned = Planned((0.0, 0.0), 0.1)
    other, first, second = (
        Trial(8, (10, 10), (9.0, 1.0)),
        Trial(4, (10, 10), (1.5, 0.5)),
        Trial(4, (10, 10), (0.5, 1.5)),
    )
    assert rebalanced([other, first], planned) == (5, 15)
    assert rebalanced([other, first, second], planned) == (10, 10)


@pytest.mark.parametrize("slow", [{}, {0: 1.5}, {6: 1.6, 7: 1.6}, {1: 1.4, 3: 1.4, 5: 1.4, 6: 1.4}])
def test_trials_settle_where_cores_differ(slow: dict[int, float]) -> None:
    """Eight workers of the paper's network; one of them also adds up everybody's errors, which nobody planned."""
    planned = Planned((0.25, 0.19, 0.19, 0.19, 0.19, 0.19, 0.0, 0.0), 0.965 / 10_217)
    columns: tuple[int, ...] = (200, 870, 870, 870, 870, 870, 2833, 2834)

    def busy(columns: tuple[int, ...]) -> list[float]:
        unplanned = [0.05 if worker == 5 else 0.01 for worker in range(8)]
        return [
            slow.get(worker, 1.0) * (planned.layers_s[worker] + count * planned.column_s + unplanned[worker])
            for worker, count in enumerate(columns)
        ]

    trials = list[Trial]()
    for part in TRIALS:
        trials.append(Trial(part, columns, tuple(busy(columns))))
        columns = rebalanced(trials, planned)
    took = busy(columns)
    assert max(took) < 1.01 * sum(took) / len(took) or min(columns) == 0
