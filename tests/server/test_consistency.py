"""Consistency models as interleavings of a shard: bounds, quorums, turns, whoever is fast."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.server.shards import ORIGIN, flat, shard, wires
from tightwire.algebra.rule import Rule
from tightwire.algebra.schedule import Meta, Schedule
from tightwire.rules.add import add
from tightwire.rules.stale import by_distance, discounted, staleness_aware
from tightwire.schedules.bounded import bounded_delay, ssp
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.schedules.quorum import backups, collect, softsync
from tightwire.schedules.turns import round_robin
from tightwire.server.events import Center, Enter, Leave, Peek, Pull, Push, Rest, Taken
from tightwire.server.shard import Shard

SUM = add(over="sum")


@dataclass
class Crew:
    """Workers that push, read and push again, in any order that their shard lets them."""

    made: Shard
    workers: int
    clocks: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    waits: set[int] = field(default_factory=set)
    applied: list[tuple[int, int]] = field(default_factory=list)
    dropped: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.clocks, self.versions = [0] * self.workers, [0] * self.workers

    def able(self) -> list[int]:
        return [worker for worker in range(self.workers) if worker not in self.waits]

    def push(self, worker: int, value: float = 1.0) -> list[int]:
        """A step of a worker; returns who was answered."""
        meta = Meta(worker, self.clocks[worker], self.versions[worker])
        self.waits.add(worker)
        replies = self.made.handle(Push(worker, self.clocks[worker], meta, wires(value)))
        self.clocks[worker] += 1
        for answered, reply in replies:
            assert isinstance(reply, Center)
            self.waits.discard(answered)
            if answered < self.workers:  # else somebody the crew does not know
                self.versions[answered] = reply.version
            self.dropped[answered] += reply.dropped
        return [answered for answered, _ in replies]


def crew(schedule: Schedule, workers: int, rule: Rule = SUM) -> Crew:
    return Crew(shard(schedule, rule, workers=workers), workers)


choices = st.lists(st.integers(0, 10**6), min_size=20, max_size=60)


# ── stale synchronous parallel ────────────────────────────────────────────────────────────────────────────────────


@given(choices, st.integers(2, 5), st.integers(0, 4))
def test_ssp_clocks_stay_within_their_bound(script: list[int], workers: int, bound: int) -> None:
    told = crew(ssp(bound), workers)
    for choice in script:
        able = told.able()
        assert able, "somebody can always go on"
        for answered in told.push(able[choice % len(able)]):
            assert told.clocks[answered] - min(told.clocks) <= bound, "a read was served too early"
        assert max(told.clocks) - min(told.clocks) <= bound + 1
    assert torch.equal(flat(told.made), ORIGIN - sum(told.clocks))


@given(choices, st.integers(2, 4), st.integers(0, 3))
def test_what_ssp_gives_out_holds_all_old_steps_and_ones_own(script: list[int], workers: int, bound: int) -> None:
    told = crew(ssp(bound), workers)
    for choice in script:
        able = told.able()
        worker = able[choice % len(able)]
        meta = Meta(worker, told.clocks[worker], told.versions[worker])
        told.waits.add(worker)
        replies = told.made.handle(Push(worker, told.clocks[worker], meta, wires(1.0)))
        told.clocks[worker] += 1
        for answered, reply in replies:
            assert isinstance(reply, Center)
            told.waits.discard(answered)
            inside = float(ORIGIN[0] - reply.wires["first"][0])  # every step subtracts 1
            old = sum(min(clock, max(0, told.clocks[answered] - bound)) for clock in told.clocks)
            others = sum(clock for w, clock in enumerate(told.clocks) if w != answered)
            assert inside >= old
            assert inside >= told.clocks[answered]
            assert inside <= others + told.clocks[answered]
            assert reply.clock == min(told.clocks)


@given(choices)
def test_without_a_bound_nobody_ever_waits(script: list[int]) -> None:
    told = crew(ssp(10**9), 3)
    for choice in script:
        assert told.push(choice % 3) == [choice % 3]


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_ssp_without_slack_shows_no_step_of_the_same_clock(one: list[int], two: list[int]) -> None:
    told = crew(ssp(0), 4)
    for clock, order in enumerate((one, two)):
        answered = [told.push(worker) for worker in order]
        assert answered[:3] == [[], [], []]
        assert sorted(answered[3]) == [0, 1, 2, 3]
        assert set(told.versions) == {4 * (clock + 1)}


# ── bounded delay ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(choices, st.integers(2, 5), st.integers(0, 4))
def test_no_gradient_is_older_than_the_delay(script: list[int], workers: int, delay: int) -> None:
    told = crew(bounded_delay(delay), workers)
    for choice in script:
        able = told.able()
        told.push(able[choice % len(able)])
        assert told.made.version == min(told.clocks), "an update is everybody's step of one clock"
    assert all(age <= delay for age in told.made.staleness)
    assert max(told.clocks) - min(told.clocks) <= delay + 1


@given(choices, st.integers(0, 3))
def test_delayed_updates_take_each_clock_by_itself(script: list[int], delay: int) -> None:
    told = crew(bounded_delay(delay), 3, add())  # the mean
    for choice in script:
        able = told.able()
        worker = able[choice % len(able)]
        told.push(worker, float(10 ** told.clocks[worker] % 7 + worker))
        done = min(told.clocks)
        moved = sum(10**clock % 7 + 1 for clock in range(done))
        torch.testing.assert_close(flat(told.made), ORIGIN - moved)


def test_a_worker_that_leaves_releases_every_clock_it_was_missing_from() -> None:
    told = crew(bounded_delay(3), 2)
    for _ in range(3):
        assert told.push(0) == [0]
    assert told.push(0) == []
    replies = told.made.handle(Leave(1))
    assert [worker for worker, _ in replies] == [1, 0]
    assert told.made.version == 4


# ── quorums ───────────────────────────────────────────────────────────────────────────────────────────────────────


def steady(told: Crew, cycles: int, jitter: float, seed: int) -> None:
    """Workers whose steps take about as long, in pretended time."""
    dice = random.Random(seed)
    ends = [dice.random() for _ in range(told.workers)]
    for _ in range(cycles * told.workers):
        worker = min(range(told.workers), key=lambda w: ends[w])
        told.push(worker, 0.0)
        ends[worker] += 1 + jitter * (2 * dice.random() - 1)


@pytest.mark.parametrize("n", [1, 2, 15, 30])
def test_mean_staleness_of_softsync(n: int) -> None:
    learners = 30
    told = crew(softsync(n), learners)
    steady(told, 60, 0.1, seed=n)
    ages = told.made.staleness
    mean = sum(age * count for age, count in ages.items()) / ages.total()
    assert mean == pytest.approx(n * (1 - 1 / learners), rel=0.05)
    assert max(ages) <= 2 * n + 1


@given(choices, st.integers(1, 4), st.integers(1, 6))
def test_softsync_steps_at_every_quorum(script: list[int], n: int, learners: int) -> None:
    told = crew(softsync(n), learners, add())
    quorum = max(1, learners // n)
    for count, choice in enumerate(script, start=1):
        worker = choice % learners
        assert told.push(worker) == [worker], "nobody waits"
        assert told.made.version == count // quorum
    torch.testing.assert_close(flat(told.made), ORIGIN - told.made.version)


@given(choices, st.integers(1, 4), st.integers(0, 3))
def test_what_is_too_old_is_dropped_and_the_rest_is_in_time(script: list[int], together: int, bound: int) -> None:
    told = crew(collect(together, bound=bound), 4)
    for choice in script:
        told.push(choice % 4)
    # what is held may age by the updates that go by while it waits: none go by, because it is in the next one
    assert all(age <= bound for age in told.made.staleness)
    assert told.made.dropped == sum(told.dropped.values())
    assert told.made.dropped + told.made.staleness.total() + len(told.made.held) == len(script)


@given(choices, st.integers(1, 6), st.integers(0, 3))
def test_late_gradients_of_backup_workers_are_never_applied(script: list[int], workers: int, spare: int) -> None:
    told = crew(backups(spare), workers, add())
    needed = max(1, workers - spare)
    for choice in script:
        able = told.able()
        assert able
        told.push(able[choice % len(able)])
    assert set(told.made.staleness) <= {0}
    assert told.made.staleness.total() == told.made.version * needed
    assert len({held.meta.worker for held in told.made.held}) == len(told.made.held), "a worker is counted once"
    torch.testing.assert_close(flat(told.made), ORIGIN - told.made.version)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=7, unique=True), st.integers(0, 3))
def test_a_step_takes_as_long_as_the_nth_fastest(times: list[float], spare: int) -> None:
    workers = len(times)
    told = crew(backups(spare), workers)
    for worker in sorted(range(workers), key=lambda w: times[w]):
        if told.made.version == 0:
            told.push(worker)
            ended = times[worker]
    assert ended == sorted(times)[max(1, workers - spare) - 1] <= max(times)


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(choices, st.integers(1, 4))
def test_turns_are_kept_whoever_is_ready_first(script: list[int], workers: int) -> None:
    told, forced = crew(round_robin(), workers), crew(asynchronous(), workers)
    for choice in script:
        able = told.able()
        worker = able[choice % len(able)]
        told.push(worker, float(worker + 1) * 0.3)
    for count in range(told.made.version):
        worker = count % workers
        forced.push(worker, float(worker + 1) * 0.3)
    assert torch.equal(flat(told.made), flat(forced.made))
    assert told.made.staleness == forced.made.staleness


def test_a_worker_that_leaves_gives_its_turn_away() -> None:
    told = crew(round_robin(), 3)
    assert told.push(2) == told.push(1) == []
    replies = told.made.handle(Leave(0))
    assert [(worker, type(reply)) for worker, reply in replies] == [(0, Taken), (1, Center), (2, Center)]


def test_a_push_that_waits_and_is_repeated_counts_once() -> None:
    told = crew(round_robin(), 2)
    for _ in range(2):
        assert told.made.handle(Push(1, 0, Meta(1, 0), wires(5.0))) == []
    replies = told.made.handle(Push(0, 0, Meta(0, 0), wires(1.0)))
    assert [worker for worker, _ in replies] == [0, 1]
    assert torch.equal(flat(told.made), ORIGIN - 6)


def test_who_looks_before_sees_the_centre_as_it_was() -> None:
    made = shard(round_robin(), SUM, workers=2)
    early = Push(1, 0, Meta(1, 0), wires(5.0), looks="before")
    assert made.handle(early) == []
    replies = dict(made.handle(Push(0, 0, Meta(0, 0), wires(1.0), looks="before")))
    seen = {worker: float(ORIGIN[0] - reply.wires["first"][0]) for worker, reply in replies.items()}  # type: ignore[union-attr]
    assert seen == {0: 0.0, 1: 1.0}
    assert torch.equal(flat(made), ORIGIN - 6)


# ── coming and going ──────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 5), st.integers(0, 3))
def test_a_late_comer_is_level_with_the_slowest(ahead: int, bound: int) -> None:
    told = crew(ssp(bound), 2)
    for _ in range(ahead):
        told.push(0)
        told.push(1)
    ((worker, reply),) = told.made.handle(Enter(7, clock=0))
    assert (worker, reply.clock) == (7, 0)  # type: ignore[union-attr]
    assert told.made.clocks[7] == ahead
    for clock in range(bound):
        ((who, _),) = told.made.handle(Push(7, clock, Meta(7, clock), wires(1.0)))
        assert who == 7
    assert told.made.handle(Push(7, bound, Meta(7, bound), wires(1.0))) == []
    told.push(0)
    assert 7 in told.push(1)


def test_a_worker_that_comes_back_may_count_from_nothing() -> None:
    made = shard(asynchronous(), SUM, workers=1)
    made.handle(Push(0, 0, Meta(0, 0), wires(1.0)))
    made.handle(Leave(0))
    made.handle(Enter(0))
    made.handle(Push(0, 0, Meta(0, 0), wires(1.0)))
    assert torch.equal(flat(made), ORIGIN - 2)


@pytest.mark.parametrize("schedule", [every_step(), ssp(0), bounded_delay(0), backups(0), round_robin()], ids=str)
def test_nobody_waits_for_a_worker_that_rests(schedule: Schedule) -> None:
    told = crew(schedule, 3)
    told.made.handle(Rest(0))
    told.push(1)
    told.push(2)
    assert told.waits == set()
    for worker in (1, 2):
        told.made.handle(Rest(worker))
    told.push(1)  # all have met: all count again
    assert told.waits == {1}


def test_a_look_at_the_centre_waits_for_nobody() -> None:
    told = crew(every_step(), 2)
    told.push(0)
    assert told.made.handle(Pull(0, Meta(0, 0))) == []
    ((worker, reply),) = told.made.handle(Peek(0))
    assert (worker, reply.version) == (0, 0)  # type: ignore[union-attr]


# ── rules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_contribution_counts_by_its_age() -> None:
    told = crew(asynchronous(), 4, discounted())
    for worker in range(4):
        told.push(worker)
    torch.testing.assert_close(flat(told.made), ORIGIN - (1 + 1 / 2 + 1 / 3 + 1 / 4))


@given(choices)
def test_ages_up_to_one_are_not_discounted(script: list[int]) -> None:
    aware, plain = crew(asynchronous(), 2, _seatless()), crew(asynchronous(), 2)
    for choice in script:
        worker = choice % 2
        if aware.made.version - aware.versions[worker] <= 1:
            aware.push(worker)
            plain.push(worker)
    assert max(aware.made.staleness, default=0) <= 1
    assert torch.equal(flat(aware.made), flat(plain.made))


def _seatless() -> Rule:
    class Weighed(type(SUM)):  # type: ignore[misc]
        def weigh(self, staleness: int, together: int) -> float:
            return staleness_aware().weigh(staleness, together)

    made: Rule = Weighed(1.0, "sum")
    return made


@given(st.floats(0.1, 3.0), st.floats(0.01, 1.0))
def test_a_contribution_counts_by_how_far_the_centre_has_moved(step: float, lr: float) -> None:
    made = shard(asynchronous(), by_distance(), workers=2)
    made.handle(Push(0, 0, Meta(0, 0), wires(step), (lr,)))
    assert torch.allclose(flat(made), ORIGIN - step)
    before = flat(made)
    made.handle(Push(1, 0, Meta(1, 0), wires(1.0), (lr,)))
    moved = ORIGIN.numel() * step**2
    torch.testing.assert_close(flat(made), before - 1 / (1 + moved / lr), rtol=1e-4, atol=1e-5)
    before = flat(made)
    made.handle(Push(1, 1, Meta(1, 1, 2), wires(1.0), (lr,)))
    torch.testing.assert_close(flat(made), before - 1)
