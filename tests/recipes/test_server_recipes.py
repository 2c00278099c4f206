"""Recipes with a parameter server in whole runs, under interleavings and pretended times that hypothesis draws."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.recipes.quadratic import Times, descend, start
from tightwire.algebra.recipe import AnyRecipe, Recipe, leaves, ways
from tightwire.codecs.topk import topk
from tightwire.exchanges.server import server
from tightwire.links.loop import Earliest, shuffled
from tightwire.memories.residual import residual
from tightwire.recipes import (
    adag,
    agn,
    asgd,
    asysg_con,
    backup_workers,
    bounded_delay,
    downpour,
    dynsgd,
    easgd,
    hardsync,
    mdownpour,
    omnivore,
    softsync,
    ssp,
    staleness_aware,
)
from tightwire.recipes.catalogue import CATALOGUE
from tightwire.run.wire import Wire

SERVED = [name for name, entry in CATALOGUE.items() if leaves(entry.make())[-1].recipe.exchange.pattern == "server"]
served = pytest.mark.parametrize("name", SERVED)


def jitter(seed: int, slow: int | None = None, sigma: float = 0.5) -> Times:
    dice = random.Random(seed)
    return lambda rank, step: dice.lognormvariate(0, sigma) * (5 if rank == slow else 1)


# ── for all of them ───────────────────────────────────────────────────────────────────────────────────────────────


@served
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), workers=st.integers(1, 5))
def test_nobody_is_left_waiting_and_all_have_one_answer(name: str, seed: int, workers: int) -> None:
    """Also where workers take different numbers of steps: whoever is done does not hold up the others."""
    recipe = CATALOGUE[name].make()
    alike = any(leaf.inner is not None for leaf in leaves(recipe))  # members of a group step together
    dice = random.Random(seed)
    counts = [5 if alike else dice.randint(0, 8) for _ in range(workers)]
    seen = descend(recipe, workers, steps=counts, lr=0.05, order=shuffled(seed))
    assert all(torch.equal(one.answer, seen[0].answer) for one in seen)
    assert torch.isfinite(seen[0].answer).all()


@served
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_pretended_times_decide_and_repeat(name: str, seed: int) -> None:
    one, two = (descend(CATALOGUE[name].make(), 3, order=Earliest(), times=jitter(seed)) for _ in range(2))
    assert torch.equal(one[0].answer, two[0].answer)
    assert one[0].staleness == two[0].staleness


@pytest.mark.parametrize("shards", [2, 3, 7])
@pytest.mark.parametrize(
    "recipe",
    [
        asgd(), hardsync(), bounded_delay(1), mdownpour(), downpour(2, 2), downpour(3, 1), ssp(2), easgd(tau=2), agn(2),
        dynsgd(2), backup_workers(late="refund"),
    ],
    ids=lambda recipe: recipe.name,
)  # fmt: skip
def test_with_one_worker_the_shards_cannot_be_told(recipe: Recipe, shards: int) -> None:
    (whole,) = descend(recipe, 1)
    (cut,) = descend(recipe.but(exchange=server(shards)), 1)
    assert torch.equal(cut.answer, whole.answer)
    assert torch.equal(cut.weights[-1], whole.weights[-1])
    assert (cut.tx_bytes, cut.rx_bytes) == (whole.tx_bytes, whole.rx_bytes)


@pytest.mark.parametrize("recipe", [hardsync(), bounded_delay(0), ssp(0)], ids=lambda recipe: recipe.name)
@given(seed=st.integers(0, 1000), shards=st.integers(2, 4))
def test_in_lockstep_the_shards_cannot_be_told_by_any_number(recipe: Recipe, seed: int, shards: int) -> None:
    whole = descend(recipe, 3, order=shuffled(seed))
    cut = descend(recipe.but(exchange=server(shards)), 3, order=shuffled(seed))
    torch.testing.assert_close(cut[0].answer, whole[0].answer)


def test_adaptive_rates_are_kept_by_shard() -> None:
    one, two = (descend(downpour(shards=shards), 1, steps=20)[0] for shards in (1, 3))
    assert torch.equal(one.answer, two.answer)


def test_codecs_go_both_ways() -> None:
    half = asgd(codec=ways(up=topk(0.5), down=CODEC_DOWN), memory=residual())
    (seen,) = descend(half.but(exchange=server(2)), 1, steps=400)
    torch.testing.assert_close(seen.answer, torch.ones(4, 3), atol=1e-2, rtol=0)


CODEC_DOWN = asgd().codec


# ── lockstep by another name ──────────────────────────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 1000), workers=st.integers(1, 4))
def test_hardsync_delay_0_and_no_spare_are_one_thing(seed: int, workers: int) -> None:
    wanted = start()
    for _ in range(6):
        wanted -= 0.1 * (wanted - (workers + 1) / 2)
    for recipe in (hardsync(), bounded_delay(0), backup_workers(0)):
        seen = descend(recipe, workers, order=shuffled(seed))
        torch.testing.assert_close(seen[0].answer, wanted)


@given(seed=st.integers(0, 1000), workers=st.integers(1, 4))
def test_ssp_without_slack_is_lockstep(seed: int, workers: int) -> None:
    wanted = start()
    for _ in range(6):
        wanted -= sum(0.05 * (wanted - target) for target in range(1, workers + 1))
    torch.testing.assert_close(descend(ssp(0), workers, lr=0.05, order=shuffled(seed))[0].answer, wanted)


# ── stale synchronous parallel ────────────────────────────────────────────────────────────────────────────────────


def clocks(wire: Wire) -> dict[int, int]:
    client = next(iter(wire._worker.clients.values()))
    state = client._transport.link._loop.machines[client._name(0)].state()  # type: ignore[attr-defined]
    return dict(state["clocks"])


@given(seed=st.integers(0, 10**6), workers=st.integers(2, 4), bound=st.integers(0, 3), slow=st.booleans())
def test_ssp_keeps_its_bound_under_delays(seed: int, workers: int, bound: int, slow: bool) -> None:
    def watch(wire: Wire, step: int) -> None:
        now = clocks(wire)
        assert now[wire.rank] == step + 1
        assert now[wire.rank] - min(now.values()) <= bound + 1

    times = jitter(seed, slow=0 if slow else None)
    seen = descend(ssp(bound), workers, steps=12, lr=0.02, order=Earliest(), times=times, watch=watch)
    assert seen[0].staleness is not None
    assert seen[0].staleness["max"] <= (2 * bound + 1) * workers


@given(seed=st.integers(0, 1000))
def test_a_worker_reads_its_own_writes_at_once(seed: int) -> None:
    """A worker that never has to read follows its own steps alone, and every one of them."""
    for rank, one in enumerate(descend(ssp(1000), 3, order=shuffled(seed))):
        wanted = start()
        for weight in one.weights:
            wanted -= 0.1 * (wanted - (rank + 1))
            torch.testing.assert_close(weight, wanted)


def test_a_copy_that_is_recent_enough_is_used_again() -> None:
    def received(bound: int) -> int:
        return descend(ssp(bound), 2, steps=24, lr=0.02)[0].rx_bytes

    assert received(0) == 24 * 48
    assert received(3) <= received(0) / 2
    assert received(1000) == 0


# ── bounded staleness elsewhere ───────────────────────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 10**6), delay=st.integers(0, 3), workers=st.integers(1, 4))
def test_bounded_delay_bounds_staleness(seed: int, delay: int, workers: int) -> None:
    seen = descend(bounded_delay(delay), workers, steps=10, order=Earliest(), times=jitter(seed))
    staleness = seen[0].staleness
    assert staleness is not None and staleness["max"] <= delay
    assert sum(staleness["histogram"].values()) == 10 * workers


@given(seed=st.integers(0, 10**6), bound=st.integers(0, 3), workers=st.integers(1, 4))
def test_asysg_con_applies_nothing_older_than_its_bound(seed: int, bound: int, workers: int) -> None:
    seen = descend(asysg_con(2, bound=bound), workers, steps=10, lr=0.02, order=Earliest(), times=jitter(seed))
    staleness = seen[0].staleness
    assert staleness is not None and staleness["max"] <= bound
    assert sum(staleness["histogram"].values()) + staleness["dropped"] == 10 * workers
    if workers == 1:
        assert staleness["max"] == staleness["dropped"] == 0


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_equal_workers_are_stale_by_all_the_others(seed: int) -> None:
    for recipe in (asgd(), dynsgd(1), agn(1)):
        seen = descend(recipe, 4, steps=60, lr=0.01, order=Earliest(), times=jitter(seed, sigma=0.1))
        assert seen[0].staleness is not None
        assert seen[0].staleness["mean"] == pytest.approx(3, abs=0.25)


# ── backup workers ────────────────────────────────────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 10**6), workers=st.integers(2, 5), spare=st.integers(0, 2))
def test_steps_take_the_time_of_the_nth_fastest(seed: int, workers: int, spare: int) -> None:
    """The first step of a world whose workers all start at once."""
    needed = max(1, workers - spare)
    dice = random.Random(seed)
    times = [dice.uniform(1, 9) for _ in range(workers)]
    ends: list[float] = []

    def watch(wire: Wire, step: int) -> None:
        ends.append(wire._worker.link.now)  # type: ignore[attr-defined]

    descend(
        backup_workers(spare), workers, steps=1, order=Earliest(), times=lambda rank, step: times[rank], watch=watch
    )
    in_time = sorted(ends)[:needed]
    assert in_time == [sorted(times)[needed - 1]] * needed
    assert sorted(ends)[needed:] == sorted(times)[needed:], "the late go on at once"


@pytest.mark.parametrize("late", ["drop", "refund"])
def test_which_worker_is_slow_does_not_matter_if_data_are_the_same(late: str) -> None:
    answers = []
    for slow in range(3):
        times = lambda rank, step, slow=slow: 100.0 if rank == slow else 1.0 + rank / 10  # noqa: E731
        seen = descend(backup_workers(late=late), 3, targets=[2.0] * 3, order=Earliest(), times=times)  # type: ignore[arg-type]
        answers.append(seen[0].answer)
    assert all(torch.allclose(answer, answers[0]) for answer in answers)


def test_late_gradients_are_counted_and_lost_or_kept() -> None:
    def slow(rank: int, step: int) -> float:
        return 1.5 if rank == 2 else 1.0

    dropped = descend(backup_workers(), 3, steps=6, order=Earliest(), times=slow)
    assert dropped[0].staleness is not None
    assert dropped[0].staleness["dropped"] > 0
    assert set(dropped[0].staleness["histogram"]) == {"0"}
    kept = descend(backup_workers(late="refund"), 3, steps=6, order=Earliest(), times=slow)
    assert not torch.equal(kept[0].answer, dropped[0].answer)


# ── local steps ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(push=st.integers(1, 4), fetch=st.integers(1, 4), steps=st.integers(1, 9))
def test_alone_at_a_fixed_rate_downpour_is_sgd_whatever_its_periods(push: int, fetch: int, steps: int) -> None:
    (seen,) = descend(downpour(push, fetch, server_rule="fixed"), 1, steps=steps)
    wanted = start()
    for _ in range(steps):
        wanted -= 0.1 * (wanted - 1)
    torch.testing.assert_close(seen.weights[-1], wanted)
    torch.testing.assert_close(seen.answer, wanted)


@given(seed=st.integers(0, 1000), push=st.integers(1, 3), fetch=st.integers(1, 3))
def test_every_step_of_every_worker_arrives_once(seed: int, push: int, fetch: int) -> None:
    """Constant gradients: the centre is the sum of all steps, however pushes and fetches interleave."""
    recipe = downpour(push, fetch, server_rule="fixed")
    seen = descend(recipe, 3, steps=7, lr=1e-7, targets=[1e6, 2e6, 3e6], order=shuffled(seed))
    torch.testing.assert_close(seen[0].answer - start(), torch.full((4, 3), 7 * 0.6), rtol=1e-3, atol=1e-3)


def test_adagrad_on_the_server() -> None:
    (seen,) = descend(downpour(gamma=0.5), 1, steps=4)
    center, squares = start(), torch.zeros(4, 3)
    for _ in range(4):
        moved = 0.1 * (center - 1)
        squares += moved**2
        center -= 0.5 * moved / (squares.sqrt() + 1e-8)
    torch.testing.assert_close(seen.answer, center)


def test_after_a_warm_start_all_go_on_from_the_first_replica() -> None:
    seen = descend(downpour(server_rule="fixed", warm=4), 3, steps=5, lr=0.1)
    alone = start()
    for _ in range(4):
        alone -= 0.1 * (alone - 1)
    wanted = alone - 0.1 * sum(alone - target for target in (1, 2, 3))
    torch.testing.assert_close(seen[0].weights[3], alone)
    torch.testing.assert_close(seen[0].answer, wanted, rtol=0.2, atol=0.2)


@pytest.mark.parametrize("tau", [1, 4, 16, 64])
def test_a_normalised_commit_does_not_grow_with_the_period(tau: int) -> None:
    (seen,) = descend(agn(tau), 1, steps=tau, lr=0.1)
    commit = float((seen.answer - start()).norm())
    one_step = 0.1 * float((start() - 1).norm())
    assert commit <= one_step * (1 + 1e-5)
    if tau == 64:
        assert commit < one_step / 5


def test_server_momentum_is_nesterov() -> None:
    (seen,) = descend(mdownpour(0.9), 1, steps=6)
    (plain,) = descend(asgd(), 1, steps=6, momentum=0.9, nesterov=True)
    assert torch.equal(seen.answer, plain.answer)
    look, velocity = start(), torch.zeros(4, 3)
    for _ in range(6):
        gradient = look - 1
        velocity = 0.9 * velocity - 0.1 * gradient
        look = look - 0.1 * gradient + 0.9 * velocity
    torch.testing.assert_close(seen.answer, look)


@given(seed=st.integers(0, 1000))
def test_alone_nothing_is_stale_so_nothing_is_discounted(seed: int) -> None:
    results = [descend(recipe, 1, order=shuffled(seed))[0].answer for recipe in (dynsgd(2), adag(2))]
    for answer in results:
        torch.testing.assert_close(answer, descend(downpour(2, 2, server_rule="fixed"), 1)[0].answer)


# ── groups ────────────────────────────────────────────────────────────────────────────────────────────────────────


def explicit(recipe: AnyRecipe) -> float:
    return leaves(recipe)[-1].recipe.center.momentum


def test_explicit_momentum_is_what_asynchrony_leaves() -> None:
    assert [explicit(omnivore(g)) for g in (1, 2, 4, 10, 16)] == pytest.approx([0.9, 0.4, 0.15, 0.0, 0.0])


@given(seed=st.integers(0, 1000))
def test_members_of_a_group_hold_the_same_weights(seed: int) -> None:
    seen = descend(omnivore(2), 4, order=shuffled(seed))
    assert torch.equal(seen[0].weights[-1], seen[1].weights[-1])
    assert torch.equal(seen[2].weights[-1], seen[3].weights[-1])
    assert seen[0].staleness is not None
    assert sum(seen[0].staleness["histogram"].values()) == 2 * 6, "a group pushes once a step"


@given(seed=st.integers(0, 1000))
def test_one_group_is_synchronous(seed: int) -> None:
    wanted: Tensor = start()
    for _ in range(6):
        wanted = wanted - 0.1 * (wanted - 2.0)
    torch.testing.assert_close(descend(omnivore(1, momentum=0.0), 3, order=shuffled(seed))[0].answer, wanted)


def test_softsync_of_one_group_of_all_is_late_by_one() -> None:
    seen = descend(softsync(1), 4, steps=20, order=Earliest(), times=jitter(1, sigma=0.1))
    assert seen[0].staleness is not None
    assert seen[0].staleness["mean"] < 2
    aware = descend(staleness_aware(1), 4, steps=20, order=Earliest(), times=jitter(1, sigma=0.1))
    torch.testing.assert_close(aware[0].answer, seen[0].answer, rtol=0.1, atol=0.1)


# ── pretended time ────────────────────────────────────────────────────────────────────────────────────────────────


def took(recipe: Recipe, times: Times, steps: int = 60, workers: int = 4) -> float:
    """When the last worker has taken its last step."""
    ends: list[float] = []

    def watch(wire: Wire, step: int) -> None:
        ends.append(wire._worker.link.now)  # type: ignore[attr-defined]

    descend(recipe, workers, steps=steps, lr=0.01, order=Earliest(), times=times, watch=watch)
    return max(ends)


def drawn(seed: int, slow: int | None = None) -> Times:
    """Times by counting: the same for every recipe."""
    return lambda rank, step: random.Random(f"{seed} {rank} {step}").lognormvariate(0, 0.5) * (5 if rank == slow else 1)


@settings(max_examples=4)
@given(seed=st.integers(0, 1000))
def test_slack_helps_against_stumbling_and_not_against_one_that_is_slow_for_ever(seed: int) -> None:
    assert took(hardsync(), drawn(seed)) >= 1.25 * took(ssp(3), drawn(seed))
    lockstep = took(hardsync(), drawn(seed, slow=2))
    assert took(ssp(3), drawn(seed, slow=2)) == pytest.approx(lockstep, rel=0.1)
    assert took(bounded_delay(3), drawn(seed, slow=2)) == pytest.approx(lockstep, rel=0.1)


def test_lockstep_takes_the_time_of_the_slowest_in_every_step() -> None:
    times = drawn(1)
    wanted = sum(max(times(rank, step) for rank in range(4)) for step in range(60))
    assert took(hardsync(), times) == pytest.approx(wanted)
    alone = max(sum(times(rank, step) for step in range(60)) for rank in range(4))
    assert took(asgd(), times) == pytest.approx(alone)
