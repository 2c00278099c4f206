"""The exchange of the first bucket starts before the backward pass has ended, and buckets start in order."""

import pytest
import torch
from torch import nn

from tests.worlds import processes
from tightwire.algebra.grain import tensor
from tightwire.algebra.recipe import AnyRecipe
from tightwire.exchanges.allreduce import ring
from tightwire.recipes import dgc, powersgd, sync_sgd
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.telemetry import event
from tightwire.telemetry.sinks import Memory

pytestmark = pytest.mark.processes
RECIPES = {
    "native": sync_sgd(grain=tensor()),
    "executor": sync_sgd(ring(), grain=tensor()),
    "dgc": dgc(0.05, momentum=0.9).but(grain=tensor()),  # type: ignore[union-attr]
    "powersgd": powersgd(exchange=ring()).but(grain=tensor()),  # type: ignore[union-attr]
}


class Slow(torch.autograd.Function):
    """Lets the comm thread run before the backward pass goes on."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, error: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        torch.arange(3_000_000).double().sum()
        return error


def events_of_one_step(recipe: AnyRecipe) -> list[tuple[str, str]]:
    torch.manual_seed(0)
    layers = [nn.Linear(50, 50) for _ in range(4)]
    sink = Memory()
    model = nn.Sequential(*layers)
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.1), settings=Settings(events=sink)) as wire:
        for _ in range(3):
            x = torch.ones(2, 50)
            for layer in layers:
                x = layer(Slow.apply(x))  # type: ignore[no-untyped-call]
            x.sum().backward()
            wire.step()
    return [(type(e).__name__, getattr(e, "bucket", "")) for e in sink.events if e.step == 2]


@pytest.mark.parametrize("name", RECIPES)
def test_exchange_starts_before_the_last_gradient_is_ready(name: str) -> None:
    for events in processes(2, events_of_one_step, RECIPES[name]):
        ready = [bucket for kind, bucket in events if kind == "Ready"]
        started = [bucket for kind, bucket in events if kind == "Started"]
        assert len(ready) == 8
        assert started == ready, "buckets must start in the order they are launched"
        assert events.index(("Started", started[0])) < events.index(("Ready", ready[-1]))


def order_on_ranks_that_differ() -> list[str]:
    """Rank 1 gets its gradients in another order; buckets must leave in the same one."""
    torch.manual_seed(0)
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    model = nn.ModuleList([first, second])
    sink = Memory()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with join(sync_sgd(ring(), grain=tensor()), model, optimizer, settings=Settings(events=sink)) as wire:
        for _ in range(3):
            x = torch.ones(2, 5)
            y = second(first(x)) if wire.rank == 0 else first(second(x))
            y.sum().backward()
            wire.step()
    return [e.bucket for e in sink.events if isinstance(e, event.Started) and e.step == 2]


def test_buckets_leave_in_one_order_on_all_ranks() -> None:
    first, second = processes(2, order_on_ranks_that_differ)
    assert first == second and len(first) == 4
