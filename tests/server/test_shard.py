"""The parameter shard as what it is: a state machine that is handed events and gives replies."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.server.shards import ORIGIN, SPECS, START, flat, push, shard, wires
from tightwire.algebra.codec import Ask, Codec, Encoding, Payload
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.rule import Rule
from tightwire.algebra.schedule import Due, Meta, Verdict, View
from tightwire.algebra.tensors import Bucket, State
from tightwire.algebra.world import At
from tightwire.codecs.dense import Dense
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import topk
from tightwire.rules.add import Add, add
from tightwire.rules.average import average
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.events import Center, Enter, Leave, Pull, Push, Taken


@dataclass(frozen=True)
class OnlyFresh:
    """Drops what was made at an older version of the centre."""

    lockstep: bool = False

    def due(self, clock: int) -> Due:
        return Due(push=True, pull=True)

    def admit(self, view: View, meta: Meta) -> Verdict:
        return Verdict.DROP if view.staleness(meta) > 0 else Verdict.APPLY

    def serve(self, view: View, meta: Meta) -> bool:
        return True


# ── pushes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pull", [True, False])
def test_a_push_that_is_repeated_is_answered_again_and_applied_once(pull: bool) -> None:
    made = shard(asynchronous())
    first, again = (made.handle(push(0, 0, 2.0, pull=pull)) for _ in range(2))
    assert torch.equal(flat(made), ORIGIN - 2)
    assert made.version == 1
    assert [worker for worker, _ in again] == [worker for worker, _ in first] == [0]
    assert type(again[0][1]) is type(first[0][1]) is (Center if pull else Taken)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=12))
def test_whatever_is_repeated_every_push_counts_once(script: list[tuple[int, int]]) -> None:
    made, counts = shard(asynchronous()), [0, 0, 0]
    for worker, times in script:
        for _ in range(times):
            made.handle(push(worker, counts[worker], float(worker + 1)))
        if counts[worker] and times > 1:
            with pytest.raises(PayloadError, match="long ago"):
                made.handle(push(worker, counts[worker] - 1, 99.0))
        counts[worker] += 1
    assert torch.equal(flat(made), ORIGIN - sum((w + 1) * n for w, n in enumerate(counts)))
    assert made.version == sum(counts) == sum(made.staleness.values())
    assert made.clocks == {worker: count for worker, count in enumerate(counts) if count}


def test_workers_count_their_pushes_separately() -> None:
    made = shard(asynchronous())
    made.handle(push(0, 0))
    made.handle(push(1, 0))
    assert torch.equal(flat(made), ORIGIN - 2)


ODD = [1e8, 1.0, -1e8, 0.125]  # their float sum depends on the order


@given(st.permutations(range(4)))
def test_what_is_held_together_is_added_in_the_order_of_workers(order: list[int]) -> None:
    assert len({sum(torch.tensor([v]) for v in some).item() for some in itertools.permutations(ODD)}) > 1  # type: ignore[union-attr]
    made = shard(every_step(), workers=4)
    for worker in order:
        made.handle(push(worker, 0, ODD[worker]))
    total = torch.zeros(1)
    for value in ODD:
        total += value
    assert torch.equal(flat(made), ORIGIN - total)
    assert made.version == 1
    assert made.held == []


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_nobody_is_answered_before_all_have_come_and_then_everybody_is(one: list[int], two: list[int]) -> None:
    made = shard(every_step(), workers=3)
    for clock, order in enumerate((one, two)):
        replies = [made.handle(push(worker, clock, version=clock)) for worker in order]
        assert replies[:2] == [[], []]
        assert sorted(worker for worker, _ in replies[2]) == [0, 1, 2]
        assert {reply.version for _, reply in replies[2] if isinstance(reply, Center)} == {clock + 1}
    assert torch.equal(flat(made), ORIGIN - 6)


@pytest.mark.parametrize(("rule", "moved"), [(add(), 2.0), (add(over="sum"), 6.0), (add(0.5), 1.0)], ids=str)
def test_what_is_applied_together_is_weighed_by_the_rule(rule: Rule, moved: float) -> None:
    made = shard(every_step(), rule, workers=3)
    for worker in range(3):
        made.handle(push(worker, 0, float(worker + 1)))
    torch.testing.assert_close(flat(made), ORIGIN - moved)


def test_positions_are_averaged() -> None:
    made = shard(every_step(), average(), workers=2)
    made.handle(push(0, 0, 1.0))
    made.handle(push(1, 0, 4.0))
    assert torch.equal(flat(made), torch.full_like(ORIGIN, 2.5))


# ── coming, going, reading ────────────────────────────────────────────────────────────────────────────────────────


def test_whoever_enters_is_given_the_centre() -> None:
    made = shard(every_step())
    ((worker, reply),) = made.handle(Enter(5))
    assert worker == 5
    assert isinstance(reply, Center)
    assert {label: wire.tolist() for label, wire in reply.wires.items()} == {k: v.tolist() for k, v in START.items()}
    assert made.clocks == {5: 0}


def test_entering_again_does_not_turn_back_the_clock() -> None:
    made = shard(asynchronous())
    made.handle(push(0, 0))
    made.handle(Enter(0))
    assert made.clocks == {0: 1}


def test_a_worker_that_leaves_releases_those_held_for_it() -> None:
    made = shard(every_step(), workers=3)
    assert made.handle(push(0, 0)) == made.handle(push(1, 0)) == []
    replies = made.handle(Leave(2))
    assert [(worker, type(reply)) for worker, reply in replies] == [(2, Taken), (0, Center), (1, Center)]
    assert torch.equal(flat(made), ORIGIN - 2)
    assert made.version == 1


def test_a_worker_that_leaves_while_others_are_missing_releases_nobody() -> None:
    made = shard(every_step(), workers=4)
    made.handle(push(0, 0))
    assert [worker for worker, _ in made.handle(Leave(3))] == [3]
    assert made.version == 0
    assert len(made.held) == 1


@dataclass(frozen=True)
class InPairs(OnlyFresh):
    """Applies contributions two by two, whoever they come from."""

    def admit(self, view: View, meta: Meta) -> Verdict:
        return Verdict.APPLY if len(view.held) + 1 >= 2 else Verdict.HOLD


def test_a_departure_does_not_make_one_contribution_two() -> None:
    made = shard(InPairs(), workers=3)
    made.handle(push(0, 0))
    made.handle(Leave(2))
    assert made.version == 0


def test_the_contribution_of_a_worker_that_left_still_counts() -> None:
    made = shard(every_step(), workers=2)
    made.handle(push(0, 0, 3.0, pull=False))
    made.handle(Leave(0))
    made.handle(push(1, 0, 1.0))
    assert torch.equal(flat(made), ORIGIN - 4)


def test_a_worker_whose_push_is_held_reads_the_centre_after_it() -> None:
    made = shard(every_step(), workers=2)
    assert [type(reply) for _, reply in made.handle(push(0, 0, pull=False))] == [Taken]
    assert made.handle(Pull(0, Meta(0, 0))) == []
    ((one, first), (two, second)) = made.handle(push(1, 0))
    assert {one, two} == {0, 1}
    assert isinstance(first, Center)
    assert isinstance(second, Center)
    assert first.version == second.version == 1


def test_a_worker_that_waits_for_nobody_reads_at_once() -> None:
    made = shard(every_step(), workers=2)
    made.handle(push(0, 0))
    ((worker, reply),) = made.handle(Pull(1, Meta(1, 0)))
    assert (worker, reply.version) == (1, 0)  # type: ignore[union-attr]


def test_the_centre_that_is_given_out_does_not_change_afterwards() -> None:
    made = shard(asynchronous())
    ((_, reply),) = made.handle(Enter(0))
    made.handle(push(0, 0))
    assert torch.equal(torch.cat(list(reply.wires.values())), ORIGIN)  # type: ignore[union-attr]


def test_the_centre_travels_in_the_codec_of_the_way_down() -> None:
    made = shard(asynchronous(), down=topk(0.5))
    ((_, reply),) = made.handle(Enter(0))
    assert isinstance(reply, Center)
    for label, wire in reply.wires.items():
        out = Bucket.zeros(SPECS[label])
        topk(0.5).decode_(out, Payload(wire), {}, At())
        assert 0 < int((out.flat != 0).sum()) <= SPECS[label].numel // 2 + 1


def test_a_codec_of_several_rounds_cannot_speak_for_a_server() -> None:
    class Asking(Dense):
        def encode(self, x: Bucket, state: State, at: At) -> Encoding:
            yield Ask("sum", x.flat)
            return (yield from super().encode(x, state, at))

    with pytest.raises(PayloadError, match="use a codec of one round"):
        shard(asynchronous(), down=Asking()).handle(Enter(0))


# ── staleness ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_staleness_is_counted_in_updates_of_the_centre() -> None:
    made = shard(asynchronous())
    made.handle(push(0, 0, version=0))
    made.handle(push(1, 0, version=0))
    made.handle(push(2, 0, version=0))
    made.handle(push(1, 1, version=2))
    assert dict(made.staleness) == {0: 1, 1: 2, 2: 1}


def test_pushes_that_are_applied_together_are_one_update() -> None:
    made = shard(every_step(), workers=3)
    for clock in range(2):
        for worker in range(3):
            made.handle(push(worker, clock, version=clock))
    assert made.version == 2
    assert dict(made.staleness) == {0: 6}


def test_a_rule_may_trust_what_is_stale_less() -> None:
    class ByAge(Add):
        def weigh(self, staleness: int, together: int) -> float:
            return 1 / max(1, staleness)

    made = shard(asynchronous(), ByAge())
    for worker in range(5):
        made.handle(push(worker, 0, 1.0))
    torch.testing.assert_close(flat(made), ORIGIN - (1 + 1 + 1 / 2 + 1 / 3 + 1 / 4))


@pytest.mark.parametrize("pull", [True, False])
def test_a_push_that_is_not_used_is_reported_as_dropped(pull: bool) -> None:
    made = shard(OnlyFresh())
    ((_, fresh),) = made.handle(push(0, 0, version=0, pull=pull))
    ((worker, stale),) = made.handle(push(1, 0, 50.0, version=0, pull=pull))
    assert worker == 1
    assert (fresh.dropped, stale.dropped) == (False, True)  # type: ignore[union-attr]
    assert torch.equal(flat(made), ORIGIN - 1)
    assert (made.version, made.dropped, dict(made.staleness)) == (1, 1, {0: 1})
    assert made.clocks == {0: 1, 1: 1}


def test_a_dropped_push_that_is_repeated_is_reported_as_dropped_again() -> None:
    made = shard(OnlyFresh())
    made.handle(push(0, 0, version=0))
    replies = [made.handle(push(1, 0, version=0)) for _ in range(2)]
    assert [reply.dropped for ((_, reply),) in replies] == [True, True]  # type: ignore[union-attr]


# ── bad pushes ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("labels", [("first",), ("first", "second", "third"), ("first", "other"), ()])
def test_a_wrong_set_of_buckets_is_refused_and_nothing_is_noted(labels: tuple[str, ...]) -> None:
    made = shard(asynchronous(), workers=1)
    before = str(made.state())
    bad = Push(0, 0, Meta(0, 0), {label: torch.zeros(4) for label in labels})
    with pytest.raises(PayloadError, match=r"worker 0 pushed .* this shard holds \['first', 'second'\]"):
        made.handle(bad)
    assert str(made.state()) == before
    made.handle(push(0, 0))
    assert torch.equal(flat(made), ORIGIN - 1)


@pytest.mark.parametrize("codec", [topk(0.5), onebit()], ids=str)
def test_a_damaged_payload_is_refused_and_nothing_is_noted(codec: Codec) -> None:
    made = shard(every_step(), up=codec, workers=1)
    good = wires({label: torch.ones(spec.numel) for label, spec in SPECS.items()}, codec)
    before = str(made.state())
    with pytest.raises(PayloadError):
        made.handle(Push(0, 0, Meta(0, 0), {**good, "second": good["second"][:-1]}))
    assert str(made.state()) == before
    assert made.parked == []
    assert [worker for worker, _ in made.handle(Push(0, 0, Meta(0, 0), good))] == [0]


@pytest.mark.parametrize("numel", [1, 3, 5])
def test_a_damaged_dense_payload_is_refused_and_nothing_is_noted(numel: int) -> None:
    made = shard(asynchronous(), workers=1)
    before = str(made.state())
    with pytest.raises(PayloadError):
        made.handle(Push(0, 0, Meta(0, 0), {**wires(1.0), "second": torch.ones(numel)}))
    assert str(made.state()) == before
