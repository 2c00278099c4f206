"""Peers that stop or die: the others say who, within the timeout, and end."""

import os
import signal
import time

import pytest
import torch
from torch import nn

from tests.worlds import collect, free_port, start
from tightwire.algebra.errors import LinkError, PeerLost, PeerTimeout
from tightwire.algebra.recipe import AnyRecipe
from tightwire.exchanges.allreduce import ring
from tightwire.recipes import layerwise, one_bit, sync_sgd
from tightwire.run.join import join
from tightwire.run.settings import Settings

pytestmark = pytest.mark.processes
RECIPES: dict[str, AnyRecipe] = {
    "native": sync_sgd(),
    "ring": sync_sgd(ring()),
    "one-bit": one_bit(),
}
TIMEOUT_S = 1.0


def until_it_fails(recipe: AnyRecipe, victim: int, how: str) -> tuple[str, str, float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    settings = Settings(exchange_timeout_s=TIMEOUT_S, step_timeout_s=20.0)
    wire = join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.1), settings=settings)
    for step in range(10):
        wire.batch(torch.ones(2, 4), torch.ones(2, 4), nn.functional.mse_loss)
        if step == 3 and wire.rank == victim:
            os.kill(os.getpid(), signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
        begin = time.monotonic()
        try:
            wire.step()
        except LinkError as error:
            return type(error).__name__, str(error), time.monotonic() - begin
    raise AssertionError("nothing was noticed")


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("name", RECIPES)
def test_the_silent_rank_is_named(name: str, how: str) -> None:
    port, victim = free_port(), 2
    started = [start(rank, 4, until_it_fails, RECIPES[name], victim, how, port=port) for rank in range(4)]
    try:
        survivors = collect([entry for rank, entry in enumerate(started) if rank != victim], 60.0)
    finally:
        for process, _ in started:
            process.kill()
            process.join()
    for kind, text, seconds in survivors:
        assert kind in (PeerTimeout.__name__, PeerLost.__name__)
        assert f"no sign of life from rank {victim}" in text, text
        assert seconds < 20.0
    if how == "stopped":
        assert all("exchange_timeout_s" in text for kind, text, _ in survivors if kind == "PeerTimeout")


def test_a_stuck_stage_is_named() -> None:
    port = free_port()
    started = [start(rank, 2, stage_or_stop, port=port) for rank in range(2)]
    try:
        kind, text = collect(started[:1], 60.0)[0]
    finally:
        for process, _ in started:
            process.kill()
            process.join()
    assert kind == "PeerTimeout"
    assert "rank 1" in text


def stage_or_stop() -> tuple[str, str]:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    settings = Settings(exchange_timeout_s=TIMEOUT_S)
    wire = join(layerwise(2), model, torch.optim.SGD(model.parameters(), lr=0.1), settings=settings)
    for step in range(10):
        if step == 4 and wire.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            wire.batch(torch.ones(2, 4), torch.ones(2, 4), nn.functional.mse_loss)
            wire.step()
        except LinkError as error:
            return type(error).__name__, str(error)
    raise AssertionError("nothing was noticed")
