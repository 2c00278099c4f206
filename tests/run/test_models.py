"""Models as people write them, under every recipe: trained, or refused with a sentence."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.worlds import processes
from tightwire.algebra.errors import JoinError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.algebra.world import groups_of
from tightwire.recipes import (
    asgd,
    dgc,
    layerwise,
    local_sgd,
    one_bit,
    post_local_sgd,
    powersgd,
    sync_sgd,
)
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.together import together
from tightwire.telemetry import event
from tightwire.telemetry.sinks import Memory

WORDS, WIDTH = 20, 8


class Everything(nn.Module):
    """Tied weights, a sparse embedding, frozen, unused and bf16 parameters, batch norm, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(6, WIDTH, sparse=True)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH)
        self.frozen.requires_grad_(False)
        self.never = nn.Linear(WIDTH, WIDTH)
        self.brief = nn.Linear(WIDTH, WIDTH, dtype=torch.bfloat16)
        self.out = nn.Linear(WIDTH, WORDS, bias=False)
        self.out.weight = self.tokens.weight

    def forward(self, ids_BT: Tensor) -> Tensor:
        x_BTC = self.tokens(ids_BT) + self.places(torch.arange(ids_BT.shape[1]))
        x_BTC = x_BTC + self.attention(x_BTC, x_BTC, x_BTC, need_weights=False)[0]
        x_BTC = self.norm(self.frozen(x_BTC).transpose(1, 2)).transpose(1, 2)
        x_BTC = x_BTC + self.brief(x_BTC.bfloat16()).float()
        out: Tensor = self.out(x_BTC)
        return out


RECIPES: dict[str, AnyRecipe] = {
    "sync-sgd": sync_sgd(),
    "local-sgd": local_sgd(2),
    "local-sgd by progress": local_sgd(2, send="progress"),
    "post-local-sgd": post_local_sgd(3, tau=2),
    "asgd": asgd(),
    "one-bit": one_bit(),
    "powersgd": powersgd(2),
    "dgc": dgc(0.1, momentum=0.0),
    "dgc in tiers": dgc(0.1, momentum=0.0, hosts="tiers", by=groups_of(2)),
}


def train(recipe: AnyRecipe, steps: int = 8) -> tuple[list[float], dict[str, Tensor], dict[str, Tensor]]:
    torch.manual_seed(1)
    model = Everything()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
    losses = []
    with join(recipe, model, optimizer) as wire:
        ids = torch.arange(24).view(4, 6) % WORDS
        for _ in range(steps):
            mine = ids[wire.rank % 4 :][:2]
            with wire.accumulate():
                (F.cross_entropy(model(mine).flatten(0, 1), mine.flatten()) / 2).backward()
            loss = F.cross_entropy(model(mine).flatten(0, 1), mine.flatten()) / 2
            loss.backward()
            wire.clip(1.0)
            wire.step(loss.detach())
            scheduler.step()
            losses.append(float(loss.detach()))
    return losses, start, {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("name", RECIPES)
def test_a_model_of_everything_trains(name: str) -> None:
    workers = 4 if name == "dgc in tiers" else 2
    results = together(workers, lambda rank: train(RECIPES[name]))
    for losses, start, end in results:
        assert losses[-1] < losses[0]
        assert end.keys() == results[0][2].keys()
        for weight, same in zip(end.values(), results[0][2].values(), strict=True):
            assert torch.equal(weight, same)
        assert torch.equal(end["frozen.weight"], start["frozen.weight"])
        assert torch.equal(end["never.weight"], start["never.weight"]), "weight decay must not move what nobody used"
        assert not torch.equal(end["brief.weight"], start["brief.weight"])
        assert not torch.equal(end["places.weight"], start["places.weight"])
        assert "out.weight" not in end, "a tied weight is one parameter"


@pytest.mark.processes
def test_a_model_of_everything_trains_over_gloo() -> None:
    for losses, _, end in processes(2, train, sync_sgd()):
        assert losses[-1] < losses[0]
        assert bool(torch.isfinite(end["brief.weight"]).all())


def test_dgc_and_adam_are_refused_with_a_remedy() -> None:
    model = Everything()
    with pytest.raises(JoinError, match=r"momentum twice: dgc.* 0\.9 .* AdamW has 0\.9 .*momentum=0"):
        join(dgc(momentum=0.9), model, torch.optim.AdamW(model.parameters()))


def test_momentum_behind_gradients_that_come_late_is_refused_with_a_remedy() -> None:
    model = Everything()
    with pytest.raises(JoinError, match=r"dgc sends most gradients late, and SGD's momentum of 0\.9 .* top-k"):
        join(dgc(), model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    join(dgc(), model, torch.optim.AdamW(model.parameters())).close()


def test_a_split_of_a_model_that_is_not_sequential_is_refused() -> None:
    def one(rank: int) -> None:
        model = Everything()
        join(layerwise(2), model, torch.optim.AdamW(model.parameters()))

    with pytest.raises(JoinError, match=r"nn\.Sequential"):
        together(2, one)


class Moody(nn.Module):
    """Uses one of two layers, by the step and the rank."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor, layer: str) -> Tensor:
        out: Tensor = getattr(self, layer)(x)
        return out


@pytest.mark.parametrize(
    ("mode", "moves"), [("watch", False), ("agree", False), ("zero", True)], ids=["watch", "agree", "zero"]
)
def test_parameters_nobody_uses_stay(mode: str, moves: bool) -> None:
    def one(rank: int) -> bool:
        torch.manual_seed(0)
        model = Moody()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
        settings = Settings(unused=mode)  # type: ignore[arg-type]
        with join(sync_sgd(), model, optimizer, settings=settings) as wire:
            before = model.b.weight.detach().clone()
            for _ in range(2):
                model(torch.ones(1, 2), "a").sum().backward()
                wire.step()
            return not torch.equal(model.b.weight, before)

    assert together(2, one) == [moves, moves]


def test_a_parameter_that_one_rank_uses_moves_alike_on_all() -> None:
    def one(rank: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        model = Moody()
        with join(sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            before = model.b.weight.detach().clone()
            for step in range(4):
                model(torch.ones(1, 2), "ab"[(rank + step) % 2]).sum().backward()
                wire.step()
        return before, model.b.weight.detach()

    (before, first), (_, second) = together(2, one)
    assert torch.equal(first, second)
    torch.testing.assert_close(first, before - 4 * 0.1 * 0.5)


def test_sparse_adam_gets_sparse_gradients() -> None:
    def one(rank: int) -> Tensor:
        torch.manual_seed(0)
        model = nn.Embedding(10, 3, sparse=True)
        with join(sync_sgd(), model, torch.optim.SparseAdam(model.parameters(), lr=0.1)) as wire:
            for _ in range(3):
                model(torch.tensor([rank, 4])).sum().backward()
                wire.step()
        return model.weight.detach()

    first, second = together(2, one)
    torch.manual_seed(0)
    start = nn.Embedding(10, 3).weight.detach()
    assert torch.equal(first, second)
    moved = (first != start).any(1).nonzero().flatten().tolist()
    assert moved == [0, 1, 4]


def test_a_compiled_model_keeps_its_names_and_says_what_it_costs() -> None:
    sink = Memory()
    model = torch.compile(nn.Linear(2, 2), backend="eager")
    with join(sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.1), settings=Settings(events=sink)) as wire:
        model(torch.ones(1, 2)).sum().backward()
        wire.step()
        assert set(wire._worker.tensors) == {"weight", "bias"}
    assert any("compiled" in e.text for e in sink.events if isinstance(e, event.Noted))
