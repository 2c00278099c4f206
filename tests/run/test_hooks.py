"""What becomes of gradients that are read where they lie."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn

import tightwire as tw
from tests.worlds import processes
from tightwire.algebra.errors import NotFiniteError
from tightwire.recipes import dgc
from tightwire.run.together import together


def test_their_memory_is_held_until_the_next_ones_have_come() -> None:
    def work(rank: int) -> list[bool]:
        model = nn.Linear(300, 300)
        alive = []
        with tw.join(dgc(0.01), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            for _ in range(2):
                model(torch.ones(2, 300)).sum().backward()
                wire.step()
            model(torch.ones(2, 300)).sum().backward()
            assert model.weight.grad is not None
            gradient = weakref.ref(model.weight.grad)
            wire.step()
            alive.append(gradient() is not None and model.weight.grad is None)
            model(torch.ones(2, 300)).sum().backward()
            alive.append(gradient() is not None)
            wire.step()
        return alive

    assert together(2, work) == [[True, False]] * 2


def meet_infinity() -> list[str]:
    """Rank 1 computes infinity in its third step; the gradient is taken in during the backward pass."""
    torch.manual_seed(0)
    model, said = nn.Linear(300, 300), list[str]()
    wire = tw.join(dgc(0.01), model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(3):
        factor = float("inf") if wire.rank == 1 and step == 2 else 1.0
        (model(torch.ones(2, 300)) * factor).sum().backward()
        said.append("backward")
        try:
            if wire.rank == 1 or step < 2:  # rank 0 would wait for a message that never comes
                wire.step()
        except NotFiniteError as error:
            said.append(str(error).split(":")[0])
    wire.close()
    return said


@pytest.mark.processes
def test_what_is_not_finite_is_told_by_the_step() -> None:
    words = "the gradient of 'bias' holds NaN or infinity, which cannot be compressed or remembered"
    assert processes(2, meet_infinity) == [["backward"] * 3, [*["backward"] * 3, words]]
