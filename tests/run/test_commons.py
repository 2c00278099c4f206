"""A centre in one memory: what its worker reads and writes, who may use it, and what collisions cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.recipes.quadratic import SHAPE, descend, start
from tests.worlds import processes
from tightwire.algebra.errors import JoinError, RecipeError
from tightwire.algebra.recipe import AnyRecipe, Recipe, forever, phases, tiers
from tightwire.codecs.topk import topk
from tightwire.exchanges.shared import shared_center
from tightwire.links.loop import shuffled
from tightwire.memories.residual import residual
from tightwire.recipes import adag, asgd, asysg_incon, downpour, dynsgd, hogwild_easgd, ssp, sync_sgd
from tightwire.run.join import join
from tightwire.run.together import spend, together
from tightwire.schedules.clock import every_step
from tightwire.schedules.quorum import collect


class Counter(nn.Module):
    """Numbers that every step adds 1 to."""

    def __init__(self, numel: int) -> None:
        super().__init__()
        self.numbers = nn.Parameter(torch.zeros(numel))


def count(steps: int, numel: int, recipe: Recipe | None = None) -> tuple[list[float], bool, dict[str, int]]:
    """Add 1 to all numbers ``steps`` times; the centre, whether all agree on it, and how old writes were."""
    model = Counter(numel)
    with join(recipe or asysg_incon(), model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
        wire.agree(False)
        for _ in range(steps):
            model.numbers.sum().neg().backward()
            spend(0.0)
            wire.step()
        with wire.answer() as seen:
            numbers: list[float] = seen.numbers.detach().tolist()
        ages = (wire.staleness() or {})["histogram"]
    return numbers, model.numbers.detach().tolist() == numbers, ages


# ── AsySG-incon ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_served_in_turn_it_is_asynchronous_sgd_without_a_server() -> None:
    for ours, theirs in zip(descend(asysg_incon(), 3), descend(asgd(), 3), strict=True):
        assert torch.equal(ours.answer, theirs.answer)
        assert all(torch.equal(a, b) for a, b in zip(ours.weights, theirs.weights, strict=True))
        assert ours.staleness == theirs.staleness
        assert ours.tx_bytes == ours.rx_bytes == 0


@given(seed=st.integers(0, 1000), workers=st.integers(1, 4))
def test_every_step_of_everybody_arrives_once_in_any_order(seed: int, workers: int) -> None:
    for numbers, agree, ages in together(workers, lambda rank: count(5, 3), order=shuffled(seed)):
        assert numbers == [5.0 * workers] * 3
        assert agree
        assert sum(ages.values()) == 5 * workers


def test_one_worker_is_never_late() -> None:
    (seen,) = descend(asysg_incon(), 1)
    assert seen.staleness is not None and seen.staleness["histogram"] == {"0": 6}


def test_a_gradient_is_as_old_as_what_others_wrote_since_it_was_read() -> None:
    """Three workers in turn: after the first round everybody is two updates late, no more and no less."""
    seen = descend(asysg_incon(), 3, steps=8)
    assert seen[0].staleness is not None
    assert seen[0].staleness["histogram"] == {"0": 1, "1": 1, "2": 22}


@given(seed=st.integers(0, 1000))
def test_nobody_is_later_than_all_that_others_write(seed: int) -> None:
    (late, *_) = descend(asysg_incon(), 3, steps=8, order=shuffled(seed))
    assert late.staleness is not None
    assert late.staleness["max"] <= 2 * 8


def test_a_batch_sees_one_copy_however_others_write() -> None:
    """Unlike hogwild, whose weights may change between the forward and the backward pass."""

    def one(rank: int) -> bool:
        model = Counter(4)
        with join(asysg_incon(), model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            same = True
            for _ in range(4):
                before = model.numbers.detach().clone()
                loss = model.numbers.sum().neg()
                spend(0.0)  # others write
                same = same and torch.equal(model.numbers.detach(), before)
                loss.backward()
                wire.step()
            wire.agree(False)
        return same and model.numbers.detach().tolist() == [12.0] * 4

    assert together(3, one) == [True] * 3


# ── Hogwild EASGD ─────────────────────────────────────────────────────────────────────────────────────────────────────


def scattered(rank: int) -> Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(rank + 1))


@given(seed=st.integers(0, 1000), workers=st.integers(1, 4), beta=st.floats(0.1, 1.0), tau=st.integers(1, 3))
def test_without_gradients_and_collisions_the_sum_of_all_and_the_centre_is_conserved(
    seed: int, workers: int, beta: float, tau: int
) -> None:
    seen = descend(hogwild_easgd(beta, tau=tau), workers, pull=0.0, start=scattered, order=shuffled(seed))
    before = start() + sum(scattered(rank) for rank in range(workers))
    after = seen[0].answer + sum(one.weights[-1] for one in seen)
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)


def test_worker_and_centre_move_towards_each_other_by_the_same_force() -> None:
    (seen,) = descend(hogwild_easgd(0.5), 1, steps=1, lr=0.1, targets=[3.0], start=scattered)
    x, c = scattered(0), start()
    torch.testing.assert_close(seen.weights[0], x - 0.5 * (x - c) - 0.1 * (x - 3.0))
    torch.testing.assert_close(seen.answer, c + 0.5 * (x - c))


def test_without_springs_workers_are_alone() -> None:
    for rank, one in enumerate(descend(hogwild_easgd(0.0), 3, order=shuffled(1))):
        (alone,) = descend(hogwild_easgd(0.0), 1, targets=[rank + 1])
        assert torch.equal(one.weights[-1], alone.weights[-1])
        assert torch.equal(one.answer, start())


# ── any recipe with a server that does not wait ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("recipe", [downpour(2, 2), downpour(4, 2, server_rule="fixed"), dynsgd(2)], ids=str)
def test_one_worker_cannot_tell_one_memory_from_a_server(recipe: Recipe) -> None:
    (ours,) = descend(recipe.but(exchange=shared_center()), 1)
    (theirs,) = descend(recipe, 1)
    assert torch.equal(ours.answer, theirs.answer)


@given(seed=st.integers(0, 1000), push=st.integers(1, 4), fetch=st.integers(1, 4))
def test_what_was_moved_between_two_writes_arrives_once(seed: int, push: int, fetch: int) -> None:
    recipe = downpour(push, fetch, server_rule="fixed")
    assert isinstance(recipe, Recipe)
    unguarded = recipe.but(exchange=shared_center())
    for numbers, _, _ in together(3, lambda rank: count(8, 2, unguarded), order=shuffled(seed)):
        assert numbers == [3.0 * (8 - 8 % push)] * 2, "the answer holds what was written"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("first", [asysg_incon(), hogwild_easgd()], ids=lambda recipe: recipe.name)
def test_after_the_phase_everybody_goes_on_from_the_centre(first: Recipe, seed: int) -> None:
    there = descend(phases((2, first), (forever, sync_sgd())), 3, steps=5, order=shuffled(seed))
    assert all(torch.equal(one.weights[-1], there[0].weights[-1]) for one in there)
    back = descend(phases((2, first), (3, sync_sgd()), (forever, first)), 3, order=shuffled(seed))
    assert all(torch.equal(one.answer, back[0].answer) for one in back)
    assert not torch.equal(back[0].answer, there[0].answer)


MISUSED: dict[str, tuple[Callable[[], AnyRecipe], str]] = {
    "codec": (lambda: asysg_incon().but(codec=topk(0.1)), "codec=TopK.* needs a server"),
    "memory": (lambda: asysg_incon().but(memory=residual()), "memory=Residual.* needs a server"),
    "quorum": (lambda: asysg_incon().but(schedule=collect(2)), "schedule=Collect.* needs a server"),
    "bound": (lambda: ssp().but(exchange=shared_center()), "schedule=Ssp.* needs a server"),
    "lockstep": (lambda: asysg_incon().but(schedule=every_step()), "schedule=Every.* needs a server"),
    "distance": (lambda: adag().but(exchange=shared_center()), "center=ByDistance.* needs a server"),
    "tiers": (lambda: tiers(sync_sgd(), asysg_incon()), "every worker stands for itself"),
    "springs": (lambda: hogwild_easgd(2.0), "beta=2.0"),
}


@pytest.mark.parametrize("what", MISUSED)
def test_what_needs_somebody_at_the_centre_is_refused(what: str) -> None:
    make, says = MISUSED[what]
    with pytest.raises(RecipeError, match=says):
        join(make(), Counter(2), torch.optim.SGD(Counter(2).parameters(), lr=1.0))


def test_workers_on_different_machines_are_refused() -> None:
    with pytest.raises(JoinError, match="asysg-incon needs all workers on one machine, and there are 2"):
        together(2, lambda rank: count(1, 4), hosts=(0, 1))


# ── real processes ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.processes
def test_lost_steps_between_processes_are_measured_not_assumed() -> None:
    (one, agree, ages), (two, _, _) = processes(2, count, 300, 4096)
    assert one == two and agree
    lost = 1 - sum(one) / (2 * 300 * 4096)
    assert 0.0 <= lost <= 0.5, "a lost step is one of two that met"
    assert min(one) >= 300
    assert sum(ages.values()) == 600, "no write is left out of the count, lost or not"


@pytest.mark.processes
def test_processes_are_pulled_to_one_centre() -> None:
    (center, own), (same, other) = processes(2, _pulled)
    assert center == same
    assert own < center < other, "the centre lies between the workers"


def _pulled() -> tuple[float, float]:
    """Workers that want to be at 0 and at 10: the centre, and this worker."""
    model = Counter(1)
    with join(hogwild_easgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        goal = 10.0 * wire.rank
        for _ in range(200):
            (0.5 * (model.numbers - goal).square().sum()).backward()
            wire.step()
        own = float(model.numbers)
    return float(model.numbers), own
