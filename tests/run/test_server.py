"""asgd against the shard, on the in-process link, under many interleavings."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tightwire.algebra.recipe import AnyRecipe
from tightwire.codecs.topk import topk
from tightwire.links.loop import in_turn, shuffled
from tightwire.memories.residual import residual
from tightwire.recipes import asgd
from tightwire.run.join import join
from tightwire.run.serve import Client
from tightwire.run.together import together
from tightwire.run.wire import Wire
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.events import Export, Exported


def shard_state(wire: Wire) -> dict[str, object]:
    client: Client = next(iter(wire._worker.clients.values()))
    exported = client._ask(0, Export(wire.rank))
    assert isinstance(exported, Exported)
    return exported.state


def descend(recipe: AnyRecipe, steps: int, lr: float = 0.1) -> tuple[Tensor, dict[str, object], int]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False)
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=lr)) as wire:
        for _ in range(steps):
            (model.weight - (wire.rank + 1)).square().sum().mul(0.5).backward()
            wire.step()
        state = shard_state(wire)
        tx = wire.ledger.tx_bytes
    return model.weight.detach(), state, tx


@given(st.integers(0, 1000), st.integers(1, 4))
def test_every_push_counts_once_whatever_the_order(seed: int, workers: int) -> None:
    results = together(workers, lambda rank: descend(asgd(), 5), order=shuffled(seed))
    last = max((state for _, state, _ in results), key=lambda state: state["version"])  # type: ignore[arg-type, return-value]
    assert last["version"] == 5 * workers
    assert sum(last["staleness"].values()) == 5 * workers  # type: ignore[attr-defined]
    if workers == 1:
        assert set(last["staleness"]) == {0}  # type: ignore[call-overload]


@given(st.integers(0, 1000))
def test_all_workers_end_with_the_same_answer(seed: int) -> None:
    weights = [w for w, _, _ in together(3, lambda rank: descend(asgd(), 5), order=shuffled(seed))]
    assert all(torch.equal(weight, weights[0]) for weight in weights)


def test_between_fetches_the_worker_does_not_move() -> None:
    def one(rank: int) -> list[float]:
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        seen = []
        recipe = asgd().but(schedule=asynchronous(fetch=3))
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            for _ in range(6):
                model(torch.ones(1, 1)).sum().backward()
                wire.step()
                seen.append(float(model.weight.detach()))
        return seen

    assert together(1, one) == [[0, 0, -3, -3, -3, -6]]


def test_loss_scaling_does_not_hold_workers_together() -> None:
    def one(rank: int) -> int:
        model = nn.Linear(2, 2)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        with join(asgd(), model, torch.optim.SGD(model.parameters(), lr=0.1), scaler=scaler) as wire:
            for _ in range(2 + 3 * rank):
                scaler.scale(model(torch.ones(1, 2)).sum()).backward()
                wire.step()
            return wire.clock

    assert together(2, one) == [2, 5]


def test_orders_really_differ_and_seeds_repeat() -> None:
    def final(seed: int) -> Tensor:
        return together(3, lambda rank: descend(asgd(), 5), order=shuffled(seed))[0][0]

    assert torch.equal(final(1), final(1))
    assert any(not torch.equal(final(1), final(seed)) for seed in range(2, 8))


def test_equal_workers_in_turn_are_stale_by_all_the_others() -> None:
    states = [state for _, state, _ in together(4, lambda rank: descend(asgd(), 50), order=in_turn)]
    staleness = max((s["staleness"] for s in states), key=lambda s: sum(s.values()))  # type: ignore[attr-defined]
    mean = sum(age * count for age, count in staleness.items()) / sum(staleness.values())  # type: ignore[attr-defined]
    assert mean == pytest.approx(3.0, abs=0.2)


def test_pushes_and_pulls_are_counted() -> None:
    for _, _, tx in together(2, lambda rank: descend(asgd(), 7)):
        assert tx == 7 * 4 * 6


def test_lockstep_on_a_server_is_synchronous() -> None:
    weights = [w for w, _, _ in together(3, lambda rank: descend(asgd().but(schedule=every_step()), 6))]
    model = nn.Linear(3, 2, bias=False)
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False)
    expected = model.weight.detach().clone()
    for _ in range(6):
        expected -= 0.1 * (expected - 2.0)
    for weight in weights:
        torch.testing.assert_close(weight, expected)


def test_compressed_pushes_reach_the_goal_with_error_feedback() -> None:
    compressed = asgd(codec=topk(0.2), memory=residual())
    for weight, _, tx in together(1, lambda rank: descend(compressed, 300)):
        torch.testing.assert_close(weight, torch.full((2, 3), 1.0), atol=1e-2, rtol=0)
        assert tx == 300 * (2 * 4 + 1)  # two of six values, and a bit for every place
