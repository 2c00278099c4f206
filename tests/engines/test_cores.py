"""Workers take cores that do not slow each other, before those that do."""

from __future__ import annotations

import os

import pytest

from tightwire.engines.cores import look, mine, order_of, partner_distance, rate_beside, sitting_on


@pytest.mark.parametrize(("cores", "distance"), [(16, 1), (16, 8), (8, 2), (4, 2)])
def test_the_first_half_has_no_partners(cores: int, distance: int) -> None:
    numbers = list(range(100, 100 + cores))

    def partner(core: int) -> int:
        place = core - 100
        return 100 + place + (distance if place % (2 * distance) < distance else -distance)

    found = partner_distance(look(numbers, lambda core, other: 5.5 if other == partner(core) else 9.9))
    assert found == distance
    order = order_of(numbers, found)
    first = set(order[: cores // 2])
    assert sorted(order) == numbers and not any(partner(core) in first for core in first)


def test_cores_that_are_alike_keep_their_order() -> None:
    rates = look([4, 5, 6, 7], lambda core, other: 10.0 - 0.1 * other)
    assert partner_distance(rates) is None and order_of([4, 5, 6, 7], None) == [4, 5, 6, 7]


def test_a_disturbance_that_passes_does_not_count() -> None:
    found = iter([5.0, 10.0, 10.0, 10.0, 10.0, 10.0])
    assert partner_distance(look([0, 1, 2, 3], lambda core, other: next(found))) is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be bound to cores here")
def test_a_thread_sits_on_a_core_and_is_let_go() -> None:
    before = os.sched_getaffinity(0)
    with sitting_on(mine()[-1]):
        assert os.sched_getaffinity(0) == {mine()[-1]}
    with sitting_on(None):
        assert os.sched_getaffinity(0) == before
    assert rate_beside(mine()[0], mine()[-1]) > 0
    assert os.sched_getaffinity(0) == before
