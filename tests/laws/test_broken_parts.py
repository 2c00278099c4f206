"""The suites can fail: parts that are broken on purpose, each caught by the law that it breaks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from torch import Tensor

from tests.laws.breaking import holds, name_of, unshrunk
from tightwire.algebra.codec import Combines, Sent
from tightwire.algebra.exchange import Exchange, Pattern, Transfer
from tightwire.algebra.memory import Memory, bucket_of, fold
from tightwire.algebra.rule import Rule
from tightwire.algebra.schedule import Due, Meta, Schedule, Verdict, View
from tightwire.algebra.split import Split, Work
from tightwire.algebra.tensors import Bucket, State
from tightwire.algebra.world import START, At, World
from tightwire.codecs.topk import topk
from tightwire.exchanges import graphs
from tightwire.exchanges.allreduce import ring
from tightwire.exchanges.owners import Owners
from tightwire.links.rounds import Moved, reduce_
from tightwire.memories.residual import Residual, residual
from tightwire.rules.add import Add
from tightwire.rules.average import Average
from tightwire.rules.signals import FromCenter
from tightwire.schedules.clock import Asynchronous, Every
from tightwire.splits.layerwise import Layerwise
from tightwire.testing import exchanges, memories, rules, schedules, splits

pytestmark = pytest.mark.usefixtures(unshrunk.__name__)


class Forgetful(Residual):
    """Loses half of what was not sent."""

    def after(self, value: Bucket, sent: Sent, received: Bucket, state: State, at: At) -> None:
        super().after(value, sent, received, state, at)
        bucket_of(state, "residual").flat.mul_(0.5)


class KeepsTheRefund(Residual):
    """Takes a refund and does not note it."""

    def refund(self, sent: Sent, state: State) -> None:
        pass


class Overwrites(Residual):
    """Begins every step owing nothing, whatever was owed."""

    def before(self, x: Bucket, state: State, at: At) -> Bucket:
        bucket_of(state, "residual").flat.copy_(x.flat)
        return bucket_of(state, "residual")


@dataclass(frozen=True)
class Secretive(Residual):
    """Remembers something outside its state."""

    calls: Iterator[int] = field(default_factory=itertools.count)

    def before(self, x: Bucket, state: State, at: At) -> Bucket:
        value = super().before(x, state, at)
        value.flat.add_(next(self.calls))
        return value


MEMORY_LAWS = (memories.nothing_lost, memories.refund_restores, memories.survives_a_new_world, memories.state_survives)


@pytest.mark.parametrize(
    ("memory", "broken"),
    [
        (Forgetful(), {"nothing_lost", "refund_restores"}),
        (KeepsTheRefund(), {"refund_restores"}),
        (Secretive(), {"state_survives"}),
    ],
    ids=name_of,
)
def test_a_broken_memory_is_caught_by_the_law_it_breaks(memory: Memory, broken: set[str]) -> None:
    with pytest.raises(AssertionError):
        memories.check_all(memory, topk(0.3))
    assert {law.__name__ for law in MEMORY_LAWS if not holds(law, memory, topk(0.3))} == broken


def test_a_memory_that_forgets_what_it_owed_is_caught() -> None:
    with pytest.raises(AssertionError):
        memories.check_all(Overwrites(), topk(0.3))


def test_folding_that_leaves_a_worker_behind_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    memories.survives_a_new_world(residual(), topk(0.3))
    monkeypatch.setattr(memories, "fold", lambda states, rank, size: fold(states[:1], rank, size))
    with pytest.raises(AssertionError):
        memories.check_all(residual(), topk(0.3))


class Uphill(Add):
    """Moves along what was sent."""

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        shared.flat.add_(total.flat, alpha=self.rate)


class Decaying(Add):
    """Moves when nothing was sent."""

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        super().step_(shared, total, state, at)
        shared.flat.mul_(0.99)


class LikesItStale(Add):
    """Trusts a contribution the more the older it is."""

    def weigh(self, staleness: int, together: int) -> float:
        return 1 - 1 / (2 + staleness)


class TooFar(Average):
    """Goes past the mean."""

    def step_(self, shared: Bucket, total: Bucket, state: State, at: At) -> None:
        shared.flat.lerp_(total.flat, 1.5)


@pytest.mark.parametrize(
    ("rule", "law"),
    [
        (Uphill(), rules.moves_against_what_is_sent),
        (Decaying(), rules.still_when_nothing_is_sent),
        (LikesItStale(), rules.weights_are_fair),
        (TooFar(), rules.takes_the_position),
    ],
    ids=name_of,
)
def test_a_broken_rule_is_caught_by_the_law_it_breaks(rule: Rule, law: Callable[[Rule], None]) -> None:
    with pytest.raises(AssertionError):
        rules.check_rule(rule)
    with pytest.raises(AssertionError):
        law(rule)


class Backwards(FromCenter):
    """New − old: a centre that subtracts it moves the wrong way."""

    def fill_(self, x: Tensor, weight: Tensor, center: Tensor | None, scale: float) -> None:
        super().fill_(x, weight, center, -scale)


class Overshoots:
    """Goes past the centre, to thrice the distance on its other side."""

    looks = "after"
    momentum = "keep"

    def adopt_(self, weight: Tensor, center: Tensor, at: At) -> None:
        weight.lerp_(center, 4.0)


def test_a_direction_that_points_the_wrong_way_is_caught() -> None:
    with pytest.raises(AssertionError):
        rules.check_signal(Backwards())


def test_an_adoption_that_leads_away_from_the_centre_is_caught() -> None:
    with pytest.raises(AssertionError):
        rules.check_adopt(Overshoots())


@dataclass(frozen=True)
class Listed:
    """An exchange given by its list of transfers."""

    make: Callable[[int], Sequence[Transfer]]
    pattern: Pattern = "reduce"
    native: str | None = None
    carries: frozenset[Combines] = frozenset({"sum"})

    def pieces(self, world: World) -> int:
        return world.size if self.pattern == "gather" else 1

    def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
        return self.make(world.size)


def added_twice(size: int) -> list[Transfer]:
    listed = graphs.tree(size)
    first = [t for t in listed if t.round == 0]
    return first + [replace(t, round=t.round + 1) for t in listed]


def last_rank_forgotten(size: int) -> list[Transfer]:
    return [t for t in graphs.tree(size) if not (t.op == "copy" and t.dst == size - 1)]


def last_slot_forgotten(size: int) -> list[Transfer]:
    return [t for t in graphs.all_to_all_copy(size) if t.dst != size - 1]


def told_again(size: int) -> list[Transfer]:
    listed = graphs.tree(size)
    return listed + [replace(t, round=t.round + 1) for t in listed[-1:]]


def out_of_order(size: int) -> list[Transfer]:
    return sorted(graphs.tree(size), key=lambda t: -t.round)


def rumours(size: int) -> list[Transfer]:
    return [replace(t, lo=t.dst, hi=t.dst + 1) for t in graphs.all_to_all_copy(size)]


def beyond_the_buffer(size: int) -> list[Transfer]:
    return [replace(t, hi=t.hi + 1) for t in graphs.tree(size)]


@pytest.mark.parametrize(
    ("exchange", "says"),
    [
        (Listed(added_twice), "are counted twice"),
        (Listed(last_rank_forgotten), "lacks a part of the sum"),
        (Listed(last_slot_forgotten, "gather"), "lacks a payload"),
        (Listed(told_again), "was copied and is sent again"),
        (Listed(out_of_order), "in round order"),
        (Listed(rumours, "gather"), "of which it has nothing"),
        (Listed(beyond_the_buffer), "hi=2"),
    ],
    ids=lambda value: value.make.__name__ if isinstance(value, Listed) else None,
)
def test_a_broken_exchange_is_caught(exchange: Exchange, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        exchanges.check_all(exchange)


def told_too_early(size: int) -> list[Transfer]:
    """A tree whose root sends what it has after the first round, and again when it has everything."""
    listed = graphs.tree(size)
    early = [Transfer(1, 0, 1, 0, 1, "copy")] if size > 2 else []
    later = [replace(t, round=t.round + 1) for t in listed if t.round > 0]
    return [t for t in listed if t.round == 0] + early + later


def test_an_exchange_that_tells_in_vain_is_caught() -> None:
    with pytest.raises(AssertionError):
        exchanges.check_all(Listed(told_too_early))


class KeepTheSums(Owners):
    """Owners that keep their sums to themselves."""

    def down(self, world: World) -> Sequence[Transfer]:
        return []


def test_owners_that_do_not_send_their_sums_are_caught() -> None:
    with pytest.raises(AssertionError):
        exchanges.check_all(KeepTheSums())


def test_ranks_that_list_different_transfers_are_caught() -> None:
    @dataclass(frozen=True)
    class Selfish(Listed):
        def transfers(self, world: World, at: At = START) -> Sequence[Transfer]:
            return [t for t in graphs.tree(world.size) if world.rank in (t.src, t.dst)]

    with pytest.raises(AssertionError):
        exchanges.same_on_all_ranks(Selfish(graphs.tree), 3)


def test_an_executor_that_moves_other_bytes_than_are_listed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncounted(*args: Any) -> Moved:
        moved = reduce_(*args)
        return Moved(moved.tx - 4, moved.rx)

    exchanges.executed_as_listed(ring(), 3)
    monkeypatch.setattr(exchanges, "reduce_", uncounted)
    with pytest.raises(AssertionError, match="listed"):
        exchanges.executed_as_listed(ring(), 3)


class Hoarder(Asynchronous):
    """Holds everything for ever."""

    def admit(self, view: View, meta: Meta) -> Verdict:
        return Verdict.HOLD


class Mute(Asynchronous):
    """Never lets anybody read."""

    def serve(self, view: View, meta: Meta) -> bool:
        return False


class WaitsForOneMore(Every):
    """Waits for one worker more than there are."""

    def admit(self, view: View, meta: Meta) -> Verdict:
        return Verdict.APPLY if len(view.held) == len(view.clocks) else Verdict.HOLD


class Silent(Asynchronous):
    """Never pushes."""

    def due(self, clock: int) -> Due:
        return Due(push=False, pull=True)


@dataclass(frozen=True)
class Moody(Asynchronous):
    """Answers differently when asked again."""

    answers: Iterator[bool] = field(default_factory=lambda: itertools.cycle((True, True, False)))

    def due(self, clock: int) -> Due:
        return Due(push=next(self.answers), pull=True)


@pytest.mark.parametrize(
    ("schedule", "law"),
    [
        (Hoarder(), schedules.everybody_is_served),
        (Mute(), schedules.everybody_is_served),
        (WaitsForOneMore(), schedules.everybody_is_served),
        (Silent(), schedules.due_by_clock_alone),
        (Moody(), schedules.due_by_clock_alone),
    ],
    ids=name_of,
)
def test_a_broken_schedule_is_caught_by_the_law_it_breaks(schedule: Schedule, law: Callable[..., None]) -> None:
    with pytest.raises(AssertionError):
        schedules.check_all(schedule)
    with pytest.raises(AssertionError):
        law(schedule)


class BackBeforeForth(Layerwise):
    """Wants the error of a minibatch before it goes forward."""

    def work(self, stage: int, tick: int) -> Work:
        work = super().work(stage, tick)
        return replace(work, backward=work.forward, forward=work.backward)


class Stubborn(Layerwise):
    """The first stage waits for one error before it goes on, the second for one more activation."""

    def work(self, stage: int, tick: int) -> Work:
        return Work(stage, tick, tick) if stage == 0 else Work(stage, tick, tick - 1 if tick else None)


class Impatient(Layerwise):
    """Runs a backward pass in the very tick in which the next stage computes the error."""

    def work(self, stage: int, tick: int) -> Work:
        backward = tick - (self.stages - 1)
        return Work(stage, super().work(stage, tick).forward, backward if backward >= 0 else None)


class Clairvoyant(Layerwise):
    """Runs the forward pass of all stages at once."""

    def work(self, stage: int, tick: int) -> Work:
        return replace(super().work(stage, tick), forward=tick)


class SkipsTheThird(Layerwise):
    """Has no forward pass for minibatch 2."""

    def work(self, stage: int, tick: int) -> Work:
        work = super().work(stage, tick)
        return replace(work, forward=None) if work.forward == 2 else work


class Repeats(Layerwise):
    """Runs the first backward pass twice."""

    def work(self, stage: int, tick: int) -> Work:
        work = super().work(stage, tick)
        return replace(work, backward=0) if work.backward == 1 else work


class EndsEarly(Layerwise):
    """Leaves the last minibatch in flight."""

    def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
        return itertools.islice(super().ticks(minibatches), minibatches)


@pytest.mark.parametrize(
    ("split", "says"),
    [
        (BackBeforeForth(3), "before its forward pass"),
        (Stubborn(2), "wait for each other for ever"),
        (Impatient(3), "updates old at stage 0, not 4"),
        (Clairvoyant(3), "updates old at stage 1, not 2"),
        (SkipsTheThird(3), "does not pass every stage"),
        (Repeats(3), "minibatch 0 twice"),
        (EndsEarly(3), "does not pass every stage"),
    ],
    ids=name_of,
)
def test_a_broken_timetable_is_caught(split: Split, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        splits.check_all(split)


def test_a_timetable_whose_cells_and_columns_differ_is_caught() -> None:
    class TwoTruths(Layerwise):
        def ticks(self, minibatches: int) -> Iterator[tuple[Work, ...]]:
            return Layerwise(self.stages).ticks(minibatches)

        def work(self, stage: int, tick: int) -> Work:
            return super().work(stage, tick + 1)

    with pytest.raises(AssertionError):
        splits.check_all(TwoTruths(2))
