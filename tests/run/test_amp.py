"""Loss scaling: ranks agree on overflow, a skipped step leaves memories alone, unscaled values are remembered."""

import pytest
import torch
from torch import Tensor, nn

from tightwire.algebra.errors import NotFiniteError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.recipes import dgc, gossip_pull, gossip_push, local_sgd, one_bit, powersgd, sync_easgd, sync_sgd
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.together import together
from tightwire.telemetry import event
from tightwire.telemetry.sinks import Memory

RECIPES: list[AnyRecipe] = [sync_sgd(), one_bit(), powersgd(), dgc(0.5, momentum=0.9), local_sgd(2)]


def run(recipe: AnyRecipe, rank: int, scale: float | None, steps: int = 4) -> Tensor:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)
    with join(recipe, model, optimizer, scaler=scaler) as wire:
        for step in range(steps):
            loss = model(torch.full((2, 4), 0.1 * (rank + step + 1))).square().sum()
            (loss if scaler is None else scaler.scale(loss)).backward()
            wire.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.name)
def test_a_scale_is_invisible(recipe: AnyRecipe) -> None:
    plain = together(2, lambda rank: run(recipe, rank, None))
    scaled = together(2, lambda rank: run(recipe, rank, 1024.0))
    for one, two in zip(plain, scaled, strict=True):
        torch.testing.assert_close(two, one, rtol=1e-5, atol=1e-6)


def overflow_on_one_rank(recipe: AnyRecipe, rank: int) -> tuple[list[Tensor], list[Tensor], float, int]:
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    sink = Memory()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with join(recipe, model, optimizer, scaler=scaler, settings=Settings(events=sink)) as wire:
        for _ in range(2):
            scaler.scale(model(torch.ones(1, 4)).sum()).backward()
            wire.step()
        owed_before = [t.clone() for lane in wire._worker.lanes for _, t in lane.owed()]
        weights_before = [p.detach().clone() for p in model.parameters()]
        loss = scaler.scale(model(torch.ones(1, 4)).sum()) * (float("inf") if rank == 1 else 1.0)
        loss.backward()
        wire.step()
        owed = [t.clone() for lane in wire._worker.lanes for _, t in lane.owed()]
        for one, two in zip(owed_before, owed, strict=True):
            assert torch.equal(one, two), "a skipped step must leave the memory alone"
        for before, p in zip(weights_before, model.parameters(), strict=True):
            assert torch.equal(before, p.detach()), "a skipped step must not move the weights"
        scaler.scale(model(torch.ones(1, 4)).sum()).backward()
        wire.step()
    skipped = sum(isinstance(e, event.Skipped) for e in sink.events)
    return owed, [p.detach() for p in model.parameters()], scaler.get_scale(), skipped


@pytest.mark.parametrize("recipe", [sync_sgd(), one_bit(), dgc(0.3, momentum=0.9)], ids=lambda r: r.name)
def test_an_overflow_on_one_rank_skips_the_step_on_all(recipe: AnyRecipe) -> None:
    results = together(2, lambda rank: overflow_on_one_rank(recipe, rank))
    for _, weights, scale, skipped in results:
        assert scale == 4.0, "every rank must lower its scale"
        assert skipped == 1
        for one, two in zip(weights, results[0][1], strict=True):
            assert torch.equal(one, two)
            assert bool(torch.isfinite(one).all())


def test_not_finite_without_a_scaler_is_refused_by_name() -> None:
    model = nn.Linear(2, 2, bias=False)
    wire = join(one_bit(), model, torch.optim.SGD(model.parameters(), lr=0.1))
    (model(torch.ones(1, 2)) * float("nan"))[0, 0].backward()
    with pytest.raises(NotFiniteError, match=r"gradient of 'weight' holds NaN"):
        wire.step()


@pytest.mark.parametrize("recipe", [sync_easgd(), gossip_pull(), gossip_push()], ids=lambda r: r.name)
def test_who_skips_a_step_still_meets_the_others(recipe: AnyRecipe) -> None:
    def one(rank: int) -> tuple[int, bool]:
        torch.manual_seed(0)
        model, sink = nn.Linear(4, 4), Memory()
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with join(recipe, model, optimizer, scaler=scaler, settings=Settings(events=sink)) as wire:
            for step in range(4):
                bad = step == 1 and rank == 1
                (scaler.scale(model(torch.ones(1, 4)).sum()) * (float("inf") if bad else 1.0)).backward()
                wire.step()
        skipped = sum(isinstance(e, event.Skipped) for e in sink.events)
        return skipped, all(bool(p.isfinite().all()) for p in model.parameters())

    assert together(2, one) == [(0, True), (1, True)]
