"""Recipes that move weights: elastic averaging, gossip, outer momentum, fresh starts. Method sheets' properties."""

import pytest
import torch
from torch import Tensor, nn

from tightwire.algebra.recipe import AnyRecipe
from tightwire.recipes import diloco, gossip_pull, gossip_push, local_sgd, model_average, one_shot_average, sync_easgd
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.together import together
from tightwire.run.wire import Wire
from tightwire.telemetry import event
from tightwire.telemetry.sinks import Memory


def apart(wire: Wire) -> None:
    """Put every worker somewhere else."""
    with torch.no_grad():
        for p in wire.model.parameters():
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(wire.rank)))
    wire._worker.finish()
    wire._worker.send_ahead()


def drift(recipe: AnyRecipe, steps: int, lr: float = 0.0) -> tuple[list[Tensor], list[Tensor]]:
    """Workers that start apart and feel no gradient: each step's weights and centre."""
    model = nn.Linear(4, 3, bias=False)
    nn.init.zeros_(model.weight)
    seen, centers = [], []
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=lr)) as wire:
        apart(wire)
        for _ in range(steps):
            seen.append(model.weight.detach().clone())
            centers.append(_center(wire))
            (model.weight * 0).sum().backward()
            wire.step()
        seen.append(model.weight.detach().clone())
        centers.append(_center(wire))
    return seen, centers


def _center(wire: Wire) -> Tensor:
    parcel = wire._worker.lanes[0].parcels[0]
    return parcel.center["weight"].clone() if parcel.center is not None else torch.zeros(3, 4)


@pytest.mark.parametrize("beta", [0.3, 0.9, 1.0])
def test_springs_conserve_the_sum_of_workers_and_centre(beta: float) -> None:
    results = together(3, lambda rank: drift(sync_easgd(beta), 6))
    sums = [sum(seen[t] for seen, _ in results) + results[0][1][t] for t in range(7)]
    for total in sums[1:]:
        torch.testing.assert_close(total, sums[0])
    assert not torch.allclose(results[0][0][0], results[0][0][6])


def test_the_centre_moves_towards_the_workers() -> None:
    results = together(3, lambda rank: drift(sync_easgd(0.9), 1))
    mean = torch.stack([seen[0] for seen, _ in results]).mean(0)
    before, after = results[0][1][:2]
    assert float((after - mean).norm()) < float((before - mean).norm())


def test_a_stiff_spring_puts_the_centre_at_the_workers_mean() -> None:
    results = together(3, lambda rank: drift(sync_easgd(1.0), 2))
    for t in range(2):
        mean = torch.stack([seen[t] for seen, _ in results]).mean(0)
        torch.testing.assert_close(results[0][1][t + 1], mean)


@pytest.mark.parametrize("recipe", [gossip_pull(), gossip_push()], ids=lambda r: r.name)
def test_gossip_comes_to_agree(recipe: AnyRecipe) -> None:
    results = together(4, lambda rank: drift(recipe, 30))
    spread = [float(torch.stack([seen[t] for seen, _ in results]).var(0).sum()) for t in (0, 10, 30)]
    assert spread[1] < 0.2 * spread[0]
    assert spread[2] < 0.2 * spread[1]


def test_gossip_sends_one_message_a_worker_whatever_their_number() -> None:
    def sent(workers: int) -> float:
        def one(rank: int) -> int:
            model = nn.Linear(8, 8, bias=False)
            with join(gossip_push(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
                for _ in range(20):
                    model(torch.ones(1, 8)).sum().backward()
                    wire.step()
                return wire.ledger.tx_bytes

        assert len(set(together(workers, one))) == 1
        return together(workers, one)[0] / 20

    assert sent(2) == sent(5) == 4 * 64 + 8


def test_a_pull_changes_only_the_one_who_pulls() -> None:
    results = together(3, lambda rank: drift(gossip_pull(), 1))
    before, after = ([seen[t] for seen, _ in results] for t in (0, 1))
    for rank in range(3):
        candidates = [(before[rank] + before[other]) / 2 for other in range(3) if other != rank]
        assert any(torch.allclose(after[rank], candidate) for candidate in candidates)


def test_outer_momentum_follows_its_equation() -> None:
    def one(rank: int) -> list[float]:
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        seen = []
        with join(diloco(1), model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            for _ in range(3):
                (model.weight * (rank + 1)).sum().backward()
                wire.step()
                seen.append(float(model.weight.detach()))
        return seen

    center, velocity, wanted = 0.0, 0.0, []
    for _ in range(3):
        velocity = 0.9 * velocity + 1.5
        center -= 0.7 * (1.5 + 0.9 * velocity)
        wanted.append(center)
    for seen in together(2, one):
        assert seen == pytest.approx(wanted)


@pytest.mark.parametrize(("recipe", "kept"), [(local_sgd(2), True), (model_average(2), False)], ids=["keep", "reset"])
def test_momentum_outlives_an_average_or_not(recipe: AnyRecipe, kept: bool) -> None:
    def one(rank: int) -> bool:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with join(recipe, model, optimizer) as wire:
            for _ in range(2):
                model(torch.ones(1, 1)).sum().backward()
                wire.step()
            return bool(optimizer.state)

    assert together(2, one) == [kept, kept]


def test_one_shot_sends_nothing_until_the_end() -> None:
    def one(rank: int) -> tuple[int, int, float]:
        model = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(model.weight)
        with join(one_shot_average(), model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            for _ in range(5):
                (model.weight * (rank + 1)).sum().backward()
                wire.step()
            during = wire.ledger.tx_bytes
        return during, wire.ledger.total("tx", "answer"), float(model.weight.detach()[0, 0])

    for during, answer, weight in together(2, one):
        assert during == 0
        assert answer > 0
        assert weight == pytest.approx(-7.5)


def test_displacements_leave_before_the_forward_pass() -> None:
    sink = Memory()

    def one(rank: int) -> None:
        model = nn.Linear(2, 2)
        settings = Settings(events=sink) if rank == 0 else None
        with join(sync_easgd(), model, torch.optim.SGD(model.parameters(), lr=0.1), settings=settings) as wire:
            for _ in range(2):
                assert len(wire._worker._pending) == 1, "the exchange of this step must be on its way"
                model(torch.ones(1, 2)).sum().backward()
                wire.step()

    together(2, one)
    assert sum(isinstance(e, event.Started) for e in sink.events) == 3, "also the one that no step came for"
