"""A stage over several workers, and workers with layers and columns: the same training as whole layers give."""

from __future__ import annotations

import tempfile

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.algebra.errors import JoinError, UsageError
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.half import half
from tightwire.codecs.topk import topk
from tightwire.memories.residual import residual
from tightwire.recipes import layerwise
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.run.wire import Wire

STEPS, BATCH, WIDTH, CLASSES = 8, 6, 8, 11


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(5, WIDTH), nn.Sigmoid(), nn.Linear(WIDTH, WIDTH), nn.Sigmoid(), nn.Linear(WIDTH, CLASSES)
    )


def batches(steps: int = STEPS) -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(4)
    return [(torch.randn(BATCH, 5), torch.randint(CLASSES, (BATCH,))) for _ in range(steps)]


def one(recipe: Recipe, rank: int, optimizer: str = "momentum") -> tuple[dict[str, Tensor], list[float], Wire]:
    model = network()
    sgd = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9 if optimizer == "momentum" else 0.0)
    losses = []
    with join(recipe, model, sgd) as wire:
        for x, y in batches():
            loss = wire.batch(x, y, F.cross_entropy)
            wire.step(loss)
            losses += [] if loss is None else [float(loss)]
        wire.drain()
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}, losses, wire


def trained(recipe: Recipe, workers: int) -> list[tuple[dict[str, Tensor], list[float], Wire]]:
    return together(workers, lambda rank: one(recipe, rank))


@pytest.mark.parametrize("columns", [None, (0, 4, 7), (3, 3, 5), (11, 0, 0), (0, 0, 11)])
def test_it_trains_as_whole_layers_do(columns: tuple[int, ...] | None) -> None:
    wanted, losses, _ = trained(layerwise(3), 3)[2]
    results = trained(layerwise(3, wide=3, columns=columns), 3)
    for rank, (weights, said, _) in enumerate(results):
        for name, weight in wanted.items():
            torch.testing.assert_close(weights[name], weight, rtol=1e-5, atol=1e-6)
        if columns is not None:
            known = pytest.approx(losses, rel=1e-5) if columns[rank] else []
            assert said == known, "every worker with columns knows the loss"


def test_more_workers_than_stages() -> None:
    wanted = trained(layerwise(2), 2)[0][0]
    for weights, _, _ in trained(layerwise(2, wide=4, cuts=(4,)), 4):
        for name in wanted:
            assert weights[name].shape == wanted[name].shape
    alike = trained(layerwise(2, wide=4, cuts=(4,)), 4)[3][0]
    whole = trained(layerwise(2, cuts=(4,)), 2)[0][0]
    for name, weight in whole.items():
        torch.testing.assert_close(alike[name], weight, rtol=1e-5, atol=1e-6)


def test_logits_never_cross_the_wire() -> None:
    results = trained(layerwise(3, wide=3, columns=(3, 3, 5)), 3)
    activations, numbers, head = 4 * BATCH * WIDTH, 4 * 3 * BATCH, 9 * 8
    sent = [wire.ledger.total("tx", "boundary") for _, _, wire in results]
    # rank 0: activations to 1, its part of the errors to 1, numbers to both others
    assert sent[0] == STEPS * (2 * activations + 2 * numbers) + 4 * head
    # rank 1: activations to 0 and 2, errors to 0, numbers to both others
    assert sent[1] == STEPS * (3 * activations + 2 * numbers) + 5 * head
    assert sent[2] == STEPS * (activations + 2 * numbers) + 3 * head


def test_half_the_bytes_with_half() -> None:
    whole = trained(layerwise(2), 2)
    halves = trained(layerwise(2).but(codec=half()), 2)
    head = 9 * 8
    for (_, _, dense), (_, _, small) in zip(whole, halves, strict=True):
        assert dense.ledger.total("tx", "boundary") == STEPS * 4 * BATCH * WIDTH + head
        assert small.ledger.total("tx", "boundary") == STEPS * 2 * BATCH * WIDTH + head
    for name, weight in whole[0][0].items():
        torch.testing.assert_close(halves[0][0][name], weight, rtol=0.02, atol=0.02)


def test_a_codec_without_a_fixed_size_says_how_long_each_message_is() -> None:
    results = trained(layerwise(2).but(codec=topk(0.5), memory=residual()), 2)
    for _, losses, wire in results[1:]:
        assert len(losses) == STEPS - 1, "the last one comes while the pipe is drained"
        assert wire.ledger.total("tx", "boundary") > STEPS * 9 * 8
    assert results[0][0].keys() == results[1][0].keys()


def test_a_checkpoint_holds_the_columns_and_their_momentum() -> None:
    recipe = layerwise(3, wide=3, columns=(3, 3, 5))

    def run(rank: int, folder: str, resumes: bool) -> dict[str, Tensor]:
        model = network()
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)) as wire:
            if resumes:
                wire.load(folder)
            for step, (x, y) in enumerate(batches()):
                if step < STEPS // 2 and resumes:
                    continue
                wire.batch(x, y, F.cross_entropy)
                wire.step()
                if step == STEPS // 2 - 1:
                    wire.save(folder)
        return {name: weight.detach().clone() for name, weight in model.named_parameters()}

    with tempfile.TemporaryDirectory() as folder:
        wanted = together(3, lambda rank: run(rank, folder, False))[0]
        got = together(3, lambda rank: run(rank, folder, True))[0]
    for name, weight in wanted.items():
        assert torch.equal(got[name], weight), name


def test_the_optimizer_steps_on_the_columns_alone() -> None:
    def shapes(rank: int) -> list[tuple[int, ...]]:
        model = network()
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        with join(layerwise(3, wide=3, columns=(3, 3, 5)), model, sgd) as wire:
            wire.drain()
            return [tuple(parameter.shape) for parameter in sgd.param_groups[0]["params"]]

    assert [said[4:] for said in together(3, shapes)] == [[(3, 8), (3,)], [(3, 8), (3,)], [(5, 8), (5,)]]


@pytest.mark.parametrize(
    ("loss_fn", "sentence"),
    [(nn.CrossEntropyLoss(label_smoothing=0.1), "computes the loss itself"), (F.mse_loss, "computes the loss itself")],
)
def test_other_losses_are_refused(loss_fn: nn.Module, sentence: str) -> None:
    def run(rank: int) -> None:
        model = network()
        with join(layerwise(2, wide=2), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            for x, y in batches():
                wire.batch(x, y, loss_fn)
                wire.step()

    with pytest.raises(UsageError, match=sentence):
        together(2, run)


def test_cuts_must_leave_the_last_layer_alone() -> None:
    def run(rank: int) -> None:
        model = network()
        join(layerwise(2, wide=2, cuts=(2,)), model, torch.optim.SGD(model.parameters(), lr=0.1))

    with pytest.raises(JoinError, match="the last of 5 layers alone"):
        together(2, run)


def test_an_optimizer_that_has_stepped_is_refused() -> None:
    def run(rank: int) -> None:
        model = network()
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model(torch.zeros(1, 5)).sum().backward()
        sgd.step()
        join(layerwise(2, wide=2), model, sgd)

    with pytest.raises(JoinError, match="stepped before join"):
        together(2, run)
