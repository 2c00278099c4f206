"""phases, tiers and parts in whole runs: nothing owed is lost, everybody agrees, bytes go where they should."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.algebra.recipe import AnyRecipe, everything, forever, parts, phases, tiers
from tightwire.algebra.world import groups_of
from tightwire.codecs.topk import topk
from tightwire.exchanges.allreduce import ring
from tightwire.exchanges.gather import gather
from tightwire.memories.residual import residual
from tightwire.recipes import dgc, local_sgd, one_bit, post_local_sgd, recipe, sync_sgd
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.together import together
from tightwire.run.wire import Wire
from tightwire.telemetry import event
from tightwire.telemetry.sinks import Memory
from tightwire.testing.cases import batches, network


def sparse(density: float) -> AnyRecipe:
    return recipe("sparse", memory=residual(), codec=topk(density), exchange=gather("as_encoded"))


def gradients(wire: Wire, steps: int) -> Tensor:
    """Give every worker a fixed stream of gradients (weights never feed back); return the sum of what was given."""
    weight = wire.model.weight
    assert isinstance(weight, Tensor)
    given = torch.zeros_like(weight)
    for step in range(steps):
        g = torch.randn(weight.shape, generator=torch.Generator().manual_seed(100 * step + wire.rank))
        (weight * g).sum().backward()
        wire.step()
        given += g / wire.size
    return given


def test_what_a_phase_still_owes_is_paid_in_the_next() -> None:
    switching = phases((5, sparse(0.05)), (forever, sync_sgd(ring())))

    def one(rank: int) -> tuple[Tensor, Tensor]:
        model = nn.Linear(6, 5, bias=False)
        nn.init.zeros_(model.weight)
        with join(switching, model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            given = gradients(wire, 5)
            missing = model.weight.detach() + given
            given += gradients(wire, 1)
            return given, missing

    results = together(3, one)
    total = sum(given for given, _ in results)
    assert float(sum(missing.abs().sum() for _, missing in results)) > 1.0, "something must be owed at the switch"

    def end(rank: int) -> Tensor:
        model = nn.Linear(6, 5, bias=False)
        nn.init.zeros_(model.weight)
        with join(switching, model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            gradients(wire, 5)
            gradients(wire, 1)
        return model.weight.detach()

    for weight in together(3, end):
        torch.testing.assert_close(-weight, torch.as_tensor(total), rtol=1e-4, atol=1e-5)


def test_a_phase_of_local_steps_ends_with_everybody_together() -> None:
    def one(rank: int) -> list[float]:
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        there_and_back = phases((3, local_sgd(100)), (forever, sync_sgd(ring())))
        seen = []
        with join(there_and_back, model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            for _ in range(4):
                (model(torch.ones(1, 1)) * (rank + 1)).sum().backward()
                wire.step()
                seen.append(float(model.weight.detach()))
        return seen

    first, second = together(2, one)
    assert first == pytest.approx([-1, -2, -4.5, -6])
    assert second == pytest.approx([-2, -4, -4.5, -6])


def test_a_new_phase_is_told() -> None:
    sink = Memory()

    def one(rank: int) -> None:
        model = network("mlp")
        settings = Settings(events=sink)
        with join(
            post_local_sgd(2, tau=2), model, torch.optim.SGD(model.parameters(), lr=0.1), settings=settings
        ) as wire:
            for x, y in batches("mlp", 4):
                wire.batch(x, y, F.mse_loss)
                wire.step()

    together(1, one)
    assert [(e.step, e.recipe) for e in sink.events if isinstance(e, event.Switched)] == [(2, "local-sgd")]


def run(chosen: AnyRecipe, rank: int, workers: int, hosts: tuple[int, ...] = ()) -> tuple[Tensor, dict[str, int]]:
    model = network("mlp")
    with join(chosen, model, torch.optim.SGD(model.parameters(), lr=0.05)) as wire:
        for x, y in batches("mlp", 10):
            wire.batch(x.tensor_split(workers)[rank], y.tensor_split(workers)[rank], F.mse_loss)
            wire.step()
        tx = {row["group"]: row["nbytes"] for row in wire.ledger.rows()
              if row["direction"] == "tx" and row["phase"] == "exchange"}  # fmt: skip
    return torch.cat([p.detach().flatten() for p in model.parameters()]), tx


def test_tiers_equal_flat_when_everything_is_sent() -> None:
    flat = together(4, lambda rank: run(sync_sgd(ring()), rank, 4))
    tiered = together(4, lambda rank: run(tiers(sync_sgd(ring()), sync_sgd(ring()), by=groups_of(2)), rank, 4))
    for (one, _), (two, _) in zip(flat, tiered, strict=True):
        torch.testing.assert_close(two, one, rtol=0, atol=1e-5)


def test_only_the_first_of_a_group_speaks_between_groups() -> None:
    results = together(4, lambda rank: run(dgc(0.05, momentum=0.9, hosts="tiers", by=groups_of(2)), rank, 4))
    sent = [sum(tx.values()) for _, tx in results]
    assert sent[0] == sent[2] > sent[1] == sent[3]
    for weights, _ in results:
        assert torch.equal(weights, results[0][0])


def test_tiers_find_hosts_by_themselves() -> None:
    by_host = together(4, lambda rank: run(dgc(0.05, momentum=0.9, hosts="tiers"), rank, 4), hosts=(0, 0, 1, 1))
    by_hand = together(4, lambda rank: run(dgc(0.05, momentum=0.9, hosts="tiers", by=groups_of(2)), rank, 4))
    assert torch.equal(by_host[0][0], by_hand[0][0])


def test_two_way_exchanges_work_in_tiers() -> None:
    results = together(4, lambda rank: run(tiers(sync_sgd(ring()), one_bit(), by=groups_of(2)), rank, 4))
    for weights, _ in results:
        assert torch.equal(weights, results[0][0])


def test_what_travels_densely_counts_densely() -> None:
    def ratio(density: float) -> float:
        def one(rank: int) -> float:
            model = nn.Linear(30, 30, bias=False)
            chosen = recipe("sparse", memory=residual(), codec=topk(density), exchange=gather())
            with join(chosen, model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
                model(torch.ones(1, 30)).sum().backward()
                wire.step()
                dense = 2 * (wire.size - 1) * 4 * 900 // wire.size
                assert wire.ledger.tx_bytes <= dense, "no step may cost more than dense"
                assert wire.ledger.payload_ratio is not None
                return wire.ledger.payload_ratio

        return together(4, one)[0]

    assert ratio(0.9) == 1.0
    assert ratio(0.1) == pytest.approx(3600 / (4 * 90 + 113), rel=1e-6)  # values, and a bit for every place
    assert ratio(0.05) == pytest.approx(4 / 0.3, rel=1e-6)


def test_parts_send_each_tensor_its_own_way() -> None:
    def biases(name: str, shape: tuple[int, ...]) -> bool:
        return name.endswith("bias")

    mixed = parts((biases, sync_sgd(ring())), (everything, one_bit()))
    results = together(2, lambda rank: run(mixed, rank, 2))
    for weights, tx in results:
        assert torch.equal(weights, results[0][0])
        dense_bytes = sum(n for group, n in tx.items() if group.startswith("sync-sgd"))
        assert dense_bytes == 10 * 4 * (10 + 4), "two workers send each bias once a step"


def test_gradients_by_parts_and_weights_by_parts_share_one_optimizer_step() -> None:
    def first_layer(name: str, shape: tuple[int, ...]) -> bool:
        return name.startswith("0.")

    mixed = parts((first_layer, local_sgd(5)), (everything, sync_sgd(ring())))
    results = together(2, lambda rank: run(mixed, rank, 2))
    assert torch.equal(results[0][0], results[1][0])
