"""What only a simulation knows: stragglers, failures, other people's traffic, thousands of workers."""

from math import inf

import pytest

from tightwire.plan.cluster import Link, flat
from tightwire.plan.delays import Lognormal, Measured
from tightwire.plan.errors import PlanError
from tightwire.plan.made import made_profile
from tightwire.plan.simulate import Failure, Traffic, simulate
from tightwire.recipes.catalogue import by_name

PROFILE = made_profile({"w": (100, 100)}, forward_s=0.1, backward_s=0.2, batch=8)
WIRE = flat(Link(1e-4, 1e7))


def test_in_lockstep_all_wait_for_a_straggler_and_apart_nobody_does() -> None:
    slow = Lognormal(0.0, slowdown={1: 5.0})
    together = simulate(by_name("sync-sgd"), PROFILE, WIRE, 4, steps=20, delays=slow)
    apart = simulate(by_name("asgd"), PROFILE, WIRE, 4, steps=20, delays=slow)
    assert together.mean_step_s == pytest.approx(1.5, rel=0.05)
    assert apart.seconds < together.seconds / 3
    assert together.utilisation == pytest.approx((3 * 0.2 + 1) / 4, abs=0.03)
    waits = [span for span in together.spans if span.kind == "wait" and span.rank != 1]
    assert sum(span.end_s - span.start_s for span in waits) > 0.5 * together.seconds


def test_backups_cut_the_tail_of_the_distribution() -> None:
    heavy = Lognormal(0.8, seed=1)
    all_of_them = simulate(by_name("hardsync"), PROFILE, WIRE, 8, steps=30, delays=heavy)
    spare = simulate(by_name("backup-workers", spare=2), PROFILE, WIRE, 8, steps=30, delays=heavy)
    assert spare.dropped > 0 == all_of_them.dropped
    assert spare.quantile(0.9) < all_of_them.quantile(0.9)


def test_stragglers_age_contributions() -> None:
    even = simulate(by_name("asgd"), PROFILE, WIRE, 8, steps=20, delays=Lognormal(0.1))
    assert even.mean_staleness == pytest.approx(7, abs=1)
    bounded = simulate(by_name("bounded-delay", delay=1), PROFILE, WIRE, 4, steps=20, delays=Lognormal(0.5))
    assert max(bounded.staleness) <= 1


def test_measured_times_are_drawn_from() -> None:
    trace = simulate(by_name("sync-sgd"), PROFILE, flat(Link(0.0, inf)), 1, steps=200, delays=Measured([1.0, 3.0]))
    assert sorted({round(seconds, 9) for seconds in trace.step_s}) == [0.15, 0.45]
    with pytest.raises(PlanError, match="at least one"):
        Measured([])


def test_a_failure_holds_up_whoever_must_wait() -> None:
    fall = [Failure(rank=2, at_s=1.0, down_s=10.0)]
    assert simulate(by_name("sync-sgd"), PROFILE, WIRE, 4, steps=20, failures=fall).seconds > 16
    trace = simulate(by_name("asgd"), PROFILE, WIRE, 4, steps=20, failures=fall)
    assert trace.seconds < 9
    with pytest.raises(PlanError, match="nobody can go on"):
        simulate(by_name("sync-sgd"), PROFILE, WIRE, 4, steps=20, failures=[Failure(2, 1.0, inf)])
    gone = simulate(by_name("hardsync"), PROFILE, WIRE, 4, steps=20, failures=[Failure(2, 1.0, inf)])
    assert len(gone.step_s) == 80


def test_other_traffic_takes_its_share_of_a_port() -> None:
    quiet = simulate(by_name("sync-sgd"), PROFILE, WIRE, 4, steps=20)
    busy = simulate(by_name("sync-sgd"), PROFILE, WIRE, 4, steps=20, traffic=Traffic(5e5, 0.2))
    computing_s = 20 * 0.3
    assert busy.seconds - computing_s > 1.5 * (quiet.seconds - computing_s) and busy.tx_nbytes == quiet.tx_nbytes


def test_spans_tell_who_did_what() -> None:
    trace = simulate(by_name("hardsync"), PROFILE.but(overheads=PROFILE.overheads), WIRE, 2, steps=3)
    assert {span.kind for span in trace.spans} >= {"compute", "wait"}
    assert all(span.end_s > span.start_s for span in trace.spans)
    assert trace.port_nbytes["host 0 in"] == 3 * 40_000


def test_many_workers_that_never_wait() -> None:
    trace = simulate(by_name("asgd"), PROFILE, flat(Link(5e-5, 1e9)), 1024, steps=6, delays=Lognormal(0.3))
    assert len(trace.step_s) == 6144 and trace.mean_staleness > 500


def test_too_many_in_one_collective_is_said() -> None:
    with pytest.raises(PlanError, match="too many to play"):
        simulate(by_name("sync-sgd"), PROFILE, WIRE, 1000, steps=1)
    with pytest.raises(PlanError, match="at least one"):
        simulate(by_name("sync-sgd"), PROFILE, WIRE, 2, steps=0)
