"""Recorded passes: only where they are the same passes; nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tightwire as tw
from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import AnyRecipe, Recipe
from tightwire.engines import recorded as module
from tightwire.engines import script
from tightwire.engines.config import RunConfig
from tightwire.engines.recorded import Passes, recorded
from tightwire.models import make
from tightwire.recipes import dgc, sync_sgd

Replayed = list[torch.Size]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Replayed:
    """A recorder for CPUs: the batches that were replayed. Like the real one it computes before it records, reads and
    writes the memory that it was made with, and hands out the same gradients again and again."""
    batches: Replayed = []

    def graphed(function: Callable[..., Tensor], args: tuple[Tensor, ...], *, allow_unused_input: bool) -> Any:
        function(args[0] * 100, *args[1:])
        torch.rand(3)
        gradients = [torch.empty_like(arg) for arg in args[1:]]
        out: list[Tensor] = []

        class Replay(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Tensor) -> Tensor:
                batches.append(inputs[0].shape)
                for mine, given in zip(args, inputs, strict=True):
                    if mine.data_ptr() != given.data_ptr():
                        mine.copy_(given)
                with torch.enable_grad():
                    out[:] = [function(*args)]
                return out[0].detach()

            @staticmethod
            def backward(ctx: Any, gradient: Tensor) -> Any:
                for mine, new in zip(gradients, torch.autograd.grad(out, args[1:], gradient), strict=True):
                    mine.copy_(new)
                return None, *(mine.detach() for mine in gradients)

        return Replay.apply

    monkeypatch.setattr(module, "_DEVICES", ("cpu",))
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", graphed)
    return batches


def passes_of(model: nn.Module) -> Passes:
    assert isinstance(model.forward, Passes)
    return model.forward


def test_the_first_batches_go_as_they_stand_and_then_all_of_their_size_are_replayed(replayed: Replayed) -> None:
    model = network()
    with recorded(model):
        for _ in range(5):
            model(torch.randn(8, 4)).sum().backward()
        assert len(replayed) == 2 and passes_of(model).replayed
        model(torch.randn(7, 4))
        model(torch.randn(8, 4, dtype=torch.float32, requires_grad=True))
        with torch.no_grad():
            model(torch.randn(8, 4))
        model.eval()
        model(torch.randn(8, 4))
        model.train()
        assert len(replayed) == 2
        model(torch.randn(8, 4))
        assert len(replayed) == 3
    assert "forward" not in vars(model)


def test_recording_changes_neither_buffers_nor_the_random_numbers_that_follow(replayed: Replayed) -> None:
    x_B, found = torch.randn(8, 4), []
    for record in (True, False):
        model, drawn = network(), torch.manual_seed(1)
        with recorded(model) if record else torch.enable_grad():
            for _ in range(6):
                model(x_B).sum().backward()
        found.append((torch.rand(3, generator=drawn), {name: t.clone() for name, t in model.state_dict().items()}))
    assert len(replayed) == 3
    (random, state), (other_random, other_state) = found
    assert torch.equal(random, other_random)
    assert all(torch.equal(state[name], other_state[name]) for name in state)


def test_weights_that_moved_are_followed(replayed: Replayed) -> None:
    model, x_B = network(), torch.randn(8, 4)
    with recorded(model):
        for _ in range(4):
            model(x_B)
        first = next(model.parameters())
        first.data = 2 * first.data
        result = model(x_B)
    assert len(replayed) == 2
    torch.testing.assert_close(result, model(x_B))
    assert torch.autograd.grad(result.square().sum(), first)[0].abs().sum() > 0


def test_layers_that_somebody_listens_to_are_not_replayed(replayed: Replayed) -> None:
    model, heard = network(), []
    model[0].register_forward_hook(lambda *_: heard.append(1))  # type: ignore[operator]
    with recorded(model):
        for _ in range(6):
            model(torch.randn(8, 4))
    assert len(heard) == 6 and not replayed


def test_what_cannot_be_recorded_goes_as_it_stands_with_one_notice(
    replayed: Replayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("operation not permitted\nwhen capturing")

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", fails)
    model = network()
    with recorded(model):
        for _ in range(3):
            model(torch.randn(8, 4))
        with pytest.warns(UserWarning, match="operation not permitted.*one by one"):
            model(torch.randn(8, 4))
        assert model(torch.randn(8, 4)).shape == (8, 3)
    assert not replayed


RECIPES = pytest.mark.parametrize("recipe", [sync_sgd(), dgc(0.01)], ids=lambda recipe: recipe.name)


def trained(recipe: AnyRecipe, device: str, *, record: bool) -> list[Tensor]:
    """Rank 0's weights and buffers after some steps, one of them with a smaller batch."""

    def work(rank: int) -> list[Tensor]:
        torch.manual_seed(0)
        model = make("resnet20", inputs=(3, 16, 16), classes=10).to(device).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        random = torch.Generator().manual_seed(rank)
        with recorded(model) if record else nullcontext(), tw.join(recipe, model, optimizer) as wire:
            for step in range(8):
                count = 5 if step == 6 else 16
                x_B, y_B = torch.randn(count, 3, 16, 16, generator=random), torch.arange(count) % 10
                wire.batch(x_B.to(device), y_B.to(device), nn.functional.cross_entropy)
                wire.step()
            assert not record or passes_of(model).replayed
        return [tensor.detach().clone() for tensor in model.state_dict().values()]

    return tw.together(3, work)[0]


@RECIPES
def test_a_run_with_recorded_passes_is_the_run(recipe: AnyRecipe, replayed: Replayed) -> None:
    for one, other in zip(trained(recipe, "cpu", record=True), trained(recipe, "cpu", record=False), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert len(replayed) == 3 * 4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@RECIPES
def test_a_run_with_recorded_passes_is_the_run_on_a_gpu(recipe: AnyRecipe, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is chosen to be sent hangs on the last bits, so both have to come to the same.
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    for one, other in zip(trained(recipe, "cuda", record=True), trained(recipe, "cuda", record=False), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_where_all_gradients_come_at_once_they_travel_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[AnyRecipe] = []

    def remembered(recipe: AnyRecipe, *rest: object, **more: object) -> object:
        joined.append(recipe)
        raise StopIteration

    monkeypatch.setattr(script, "join", remembered)
    for at_once in (False, True):
        monkeypatch.setattr(script, "_recorded", lambda *asked, at_once=at_once: at_once)
        config = RunConfig(recipe="qsgd", folder=str(tmp_path / str(at_once)))
        with pytest.raises(StopIteration):
            script.train(config, rank=0, link=script.IN_PROCESS, resume=False)
    first, second = joined
    assert isinstance(first, Recipe) and second == first.but(grain=whole()) != first
