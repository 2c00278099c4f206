"""Models that are no chain, traced and cut where one tensor crosses: the same results, the very same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.algebra.errors import JoinError
from tightwire.algebra.recipe import Recipe
from tightwire.recipes import gpipe, layerwise
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.splits.export import as_sequential

CLASSES = 5


class Residual(nn.Module):
    """Two blocks with a way around each, batch norm, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(6, 6, 3, padding=1) for _ in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm2d(6) for _ in range(2))
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu_()
        for k, norm in enumerate(self.norms):
            h = h + self.blocks[2 * k + 1](norm(self.blocks[2 * k](h)).relu())
        h = h.mean((2, 3)).view(h.size(0), -1)
        out: Tensor = self.last(self.drop(h))
        return out


class Attentive(nn.Module):
    """Words, two layers of attention, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.layers(self.words(x)).mean(1))
        return out


def residual() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Residual(), torch.randn(4, 3, 6, 6)


def attentive() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Attentive(), torch.randint(11, (4, 5))


@pytest.mark.parametrize(("made", "pieces"), [(residual, 4), (attentive, 6)])
def test_pieces_compute_what_the_model_does(made: object, pieces: int) -> None:
    model, x = made()  # type: ignore[operator]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    chain = as_sequential(model, x)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items()), (
        "tracing leaves no trace"
    )
    assert len(chain) == pieces
    assert [id(p) for p in chain.parameters()] == [id(p) for p in _in_order(chain, model)]
    more = torch.cat([x, x.flip(0), x[:1]])  # another number of samples
    for training in (True, False):
        grads = []
        for module in (model.train(training), chain.train(training)):
            torch.manual_seed(1)
            F.cross_entropy(module(more), torch.arange(len(more)) % CLASSES).backward()
            grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
            model.zero_grad()
        assert len(grads[0]) == len(list(model.parameters()))
        for ours, theirs in zip(*grads, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert isinstance(chain[-1], nn.Linear)


def _in_order(chain: nn.Module, model: nn.Module) -> list[nn.Parameter]:
    """The model's own parameters, in the chain's order: every one, once."""
    own = {id(p): p for p in model.parameters()}
    found = [own.pop(id(p)) for p in chain.parameters()]
    assert not own
    return found


def test_evaluation_changes_no_buffer() -> None:
    model, x = residual()
    chain = as_sequential(model, x).eval()
    before = [buffer.clone() for buffer in model.buffers()]
    chain(x)
    assert all(torch.equal(old, new) for old, new in zip(before, model.buffers(), strict=True))
    chain.train()(x)
    assert not all(torch.equal(old, new) for old, new in zip(before, model.buffers(), strict=True))


def trained(recipe: Recipe | None, steps: int) -> dict[str, Tensor]:
    """The residual network without dropout after some steps, alone or as one worker of a recipe."""
    model, x = residual()
    assert isinstance(model, Residual)
    model.drop.p = 0.0
    y, optimizer = torch.arange(len(x)), torch.optim.SGD(model.parameters(), lr=0.1)
    if recipe is None:
        for _ in range(steps):
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    else:
        with join(recipe, as_sequential(model, x), optimizer) as wire:
            for _ in range(steps):
                wire.batch(x, y, F.cross_entropy)
                wire.step()
            wire.drain()
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


@pytest.mark.parametrize(
    ("recipe", "wanted"),
    [
        (gpipe(2, microbatches=1), None),
        (layerwise(2, cuts=(3,), wide=2), layerwise(2, cuts=(3,))),
    ],
)
def test_traced_stages_train_the_model_itself(recipe: Recipe, wanted: Recipe | None) -> None:
    expected = trained(None, 3) if wanted is None else together(2, lambda _: trained(wanted, 3))[0]
    for weights in together(2, lambda _: trained(recipe, 3)):
        for name, weight in expected.items():
            torch.testing.assert_close(weights[name], weight, rtol=1e-5, atol=1e-6)


class Around(nn.Module):
    """Its input is needed until the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.first(x)) + x
        return out


class Tied(nn.Module):
    """One weight at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(x, self.weight).relu(), self.weight)


class Fixed(nn.Module):
    """Knows its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.first(x).view(2, 2, 4))
        return out


class Undecided(Around):
    """Looks at values."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.first(x) if x.sum() > 0 else self.last(x)
        return out


class Moody(Fixed):
    """Another function when it does not train."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.first(x) if self.training else 2 * self.first(x))
        return out


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Around, "more than one tensor crosses"),
        (Tied, "a weight is used on both sides"),
        (Fixed, "batches of 4 samples only"),
        (Undecided, "torch.export cannot trace Undecided"),
        (Moody, "another result than the model in evaluation"),
    ],
)
def test_others_are_refused(kind: type[nn.Module], words: str) -> None:
    with pytest.raises(JoinError, match=words):
        as_sequential(kind(), torch.randn(4, 4))


def test_a_single_sample_is_refused() -> None:
    with pytest.raises(JoinError, match="at least 2 samples"):
        as_sequential(Around(), torch.randn(1, 4))
