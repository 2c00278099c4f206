"""What a training script does beside forward and backward: accumulate, clip, schedule, evaluate."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.algebra.errors import UsageError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.recipes import asgd, dgc, local_sgd, one_bit, sync_sgd
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.run.wire import Wire
from tightwire.testing.cases import batches, network

WORKERS = 2


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def with_micro_batches(rank: int, parts: int) -> list[Tensor]:
    model = network("mlp")
    with join(sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        for x, y in batches("mlp", 6):
            xs = x.tensor_split(WORKERS)[rank].tensor_split(parts)
            ys = y.tensor_split(WORKERS)[rank].tensor_split(parts)
            with wire.accumulate():
                for part_x, part_y in zip(xs[:-1], ys[:-1], strict=True):
                    (F.mse_loss(model(part_x), part_y) / parts).backward()
            (F.mse_loss(model(xs[-1]), ys[-1]) / parts).backward()
            wire.step()
    assert wire.ledger.tx_bytes == 6 * 4 * sum(p.numel() for p in model.parameters())
    return weights(model)


def test_micro_batches_are_one_batch_and_one_exchange() -> None:
    once = together(WORKERS, lambda rank: with_micro_batches(rank, 1))[0]
    thrice = together(WORKERS, lambda rank: with_micro_batches(rank, 3))[0]
    for one, three in zip(once, thrice, strict=True):
        torch.testing.assert_close(three, one, rtol=0, atol=1e-6)


def test_two_backward_passes_without_accumulate_are_refused() -> None:
    model = nn.Linear(2, 1)
    with join(sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        model(torch.ones(1, 2)).sum().backward()
        wire.step()
        model(torch.ones(1, 2)).sum().backward()
        with pytest.raises(UsageError, match="accumulate"):
            model(torch.ones(1, 2)).sum().backward()


def clipped_alone(limit: float) -> list[Tensor]:
    model = network("mlp")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches("mlp", 6):
        F.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)


def clipped(recipe: AnyRecipe, rank: int, limit: float) -> tuple[list[Tensor], list[float]]:
    model = network("mlp")
    norms = []
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        for x, y in batches("mlp", 6):
            F.mse_loss(model(x.tensor_split(WORKERS)[rank]), y.tensor_split(WORKERS)[rank]).backward()
            norms.append(wire.clip(limit))
            wire.step()
    return weights(model), norms


def test_clipping_exchanged_gradients_is_clipping_the_large_batch() -> None:
    wanted = clipped_alone(0.3)
    for got, norms in together(WORKERS, lambda rank: clipped(sync_sgd(), rank, 0.3)):
        assert all(norm > 0.3 for norm in norms[:2]), "the limit must bite for this to mean anything"
        for one, two in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-6)


def test_remembered_gradients_are_clipped_before_they_are_remembered() -> None:
    def one(rank: int) -> float:
        model = nn.Linear(4, 4, bias=False)
        with join(one_bit(), model, torch.optim.SGD(model.parameters(), lr=0.0)) as wire:
            (1000 * model(torch.ones(1, 4)).sum()).backward()
            wire.clip(1.0)
            before = wire._worker.tensors["weight"].grad
            assert before is not None
            return float(before.norm()) / WORKERS

    for norm in together(WORKERS, one):
        assert norm == pytest.approx(1 / math.sqrt(WORKERS), rel=1e-3)


@pytest.mark.parametrize("recipe", [asgd(), local_sgd(3)], ids=lambda r: r.name)
def test_own_gradients_are_clipped_one_by_one(recipe: AnyRecipe) -> None:
    def one(rank: int) -> float:
        model = nn.Linear(4, 4, bias=False)
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            start = model.weight.detach().clone()
            (1000 * model(torch.ones(1, 4)).sum()).backward()
            wire.clip(0.5)
            wire.step()
            return float((model.weight.detach() - start).norm())

    assert together(1, one)[0] == pytest.approx(0.5, rel=1e-4)


def test_clipping_late_with_a_memory_is_refused() -> None:
    model = nn.Linear(4, 4)
    with join(dgc(0.5), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        for clips in (False, True):
            model(torch.ones(1, 4)).sum().backward()
            if clips:
                with pytest.raises(UsageError, match="every step"):
                    wire.clip(1.0)
            wire.step()


def test_learning_rate_schedulers_work_in_both_seats() -> None:
    def one(recipe: AnyRecipe) -> float:
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        with join(recipe, model, optimizer) as wire:
            for _ in range(3):
                model(torch.ones(1, 1)).sum().backward()
                wire.step()
                scheduler.step()
        return float(model.weight.detach())

    for recipe in (sync_sgd(), local_sgd(1), asgd()):
        assert together(WORKERS if recipe.name != "asgd" else 1, lambda rank, r=recipe: one(r))[0] == pytest.approx(
            -1.75
        )  # type: ignore[misc]


def test_answer_is_the_average_and_leaves_the_worker_as_it_was() -> None:
    def one(rank: int) -> tuple[float, float, float]:
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        with join(local_sgd(100), model, torch.optim.SGD(model.parameters(), lr=1.0)) as wire:
            (model(torch.ones(1, 1)) * (rank + 1)).sum().backward()
            wire.step()
            own = float(model.weight.detach())
            with wire.answer() as answer:
                answered = float(answer.weight.detach())  # type: ignore[operator, union-attr]
            assert float(model.weight.detach()) == own
        return own, answered, float(model.weight.detach())

    for rank, (own, answered, final) in enumerate(together(3, one)):
        assert own == -(rank + 1)
        assert answered == pytest.approx(-2.0)
        assert final == pytest.approx(-2.0), "after the block the model is the answer"


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x)
        return out


def test_buffers_are_averaged_in_the_answer_and_recalibrated_on_demand() -> None:
    def one(rank: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(rank)
        model = Normed()
        data = torch.randn(64, 2) + 10 * rank
        with join(sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            model(data).sum().backward()
            wire.step()
            with wire.answer():
                averaged = model.norm.running_mean.clone()  # type: ignore[union-attr]
            wire.recalibrate([(data,)])
            recalibrated = model.norm.running_mean.clone()  # type: ignore[union-attr]
            assert model.training
        return averaged, recalibrated

    for averaged, recalibrated in together(2, one):
        torch.testing.assert_close(averaged, torch.full((2,), 0.5), atol=0.05, rtol=0)
        torch.testing.assert_close(recalibrated, torch.full((2,), 5.0), atol=0.5, rtol=0)


def test_a_closed_wire_says_so() -> None:
    model = nn.Linear(1, 1)
    with join(sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        assert isinstance(wire, Wire)
    with pytest.raises(UsageError, match="closed"):
        wire.step()
