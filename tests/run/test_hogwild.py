"""One memory for all workers: interleavings in one process, real collisions between processes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.recipes.quadratic import descend, start
from tests.worlds import processes
from tightwire.algebra.errors import JoinError
from tightwire.algebra.recipe import forever, phases
from tightwire.links.loop import shuffled
from tightwire.recipes import hogwild, sync_sgd
from tightwire.run.join import join
from tightwire.run.together import spend, together


class Counter(nn.Module):
    """Numbers that every step adds 1 to, in tensors of so many: an optimizer writes all of a tensor, or nothing."""

    def __init__(self, numel: int, each: int) -> None:
        super().__init__()
        self.numbers = nn.ParameterList(torch.zeros(each) for _ in range(numel // each))

    def all(self) -> list[float]:
        """As they are now."""
        return torch.cat([number.detach() for number in self.numbers]).tolist()


def count(steps: int, numel: int, own: bool) -> tuple[list[float], bool]:
    """Add 1 to all numbers, or to this worker's own part of them, ``steps`` times; the numbers, and all agree."""
    model = Counter(numel, 1 if own else numel)
    with join(hogwild(), model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
        part = slice(wire.rank * numel // wire.size, (wire.rank + 1) * numel // wire.size) if own else slice(None)
        wire.agree(False)
        for _ in range(steps):
            torch.cat(list(model.numbers[part])).sum().neg().backward()
            spend(0.0)
            wire.step()
        with wire.answer() as seen:
            numbers: list[float] = seen.all()
    return numbers, model.all() == numbers


@given(seed=st.integers(0, 1000), workers=st.integers(1, 4))
def test_steps_that_touch_different_weights_come_out_alike_in_any_order(seed: int, workers: int) -> None:
    for numbers, agree in together(workers, lambda rank: count(5, 8, own=True), order=shuffled(seed)):
        assert numbers == [5.0] * 8
        assert agree


@given(seed=st.integers(0, 1000))
def test_what_one_worker_writes_is_what_the_others_read(seed: int) -> None:
    seen = descend(hogwild(), 3, steps=30, lr=0.1, order=shuffled(seed))
    assert all(torch.equal(one.answer, seen[0].answer) for one in seen)
    assert float((seen[0].answer - 2).abs().max()) < 1.1
    assert not torch.equal(seen[0].answer, start())


def test_a_gradient_may_be_older_than_the_weights_it_moves() -> None:
    """Both look at 0, both step by −1·(0 − 1): the second knows nothing of the first."""

    def one(rank: int) -> Tensor:
        model = Counter(1, 1)
        with join(hogwild(), model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            (0.5 * (model.numbers[0] - 1).square().sum()).backward()
            wire.agree(False)
            wire.step()
        return model.numbers[0].detach()

    assert [float(numbers) for numbers in together(2, one)] == [2.0, 2.0]


@given(seed=st.integers(0, 1000), until=st.integers(1, 4))
def test_after_the_phase_everybody_has_a_copy_again(seed: int, until: int) -> None:
    recipe = phases((until, hogwild()), (forever, sync_sgd()))
    seen = descend(recipe, 3, order=shuffled(seed))
    assert all(torch.equal(one.answer, seen[0].answer) for one in seen)
    together_ = descend(phases((until, hogwild()), (forever, hogwild())), 3, order=shuffled(seed))
    assert len(together_) == 3


def test_workers_on_different_machines_are_refused() -> None:
    with pytest.raises(JoinError, match=r"all workers on one machine, and there are 2; between machines use asgd\(\)"):
        together(2, lambda rank: count(1, 4, own=False), hosts=(0, 1))


@pytest.mark.processes
def test_processes_share_one_memory() -> None:
    for numbers, agree in processes(2, count, 200, 64, True):
        assert numbers == [200.0] * 64, "nobody else writes there: nothing is lost"
        assert agree


@pytest.mark.processes
def test_lost_steps_are_measured_not_assumed() -> None:
    results = processes(2, count, 400, 4096, False)
    (one, _), (two, agree) = results
    assert one == two and agree
    lost = 1 - sum(one) / (2 * 400 * 4096)
    assert 0.0 <= lost <= 0.5, "a lost step is one of two that met"
    assert min(one) >= 400
