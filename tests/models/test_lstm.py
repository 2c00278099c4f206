"""The language model: what it carries from batch to batch, and what it does not."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tightwire.models import make
from tightwire.models.lstm import LanguageModel


@pytest.fixture
def model() -> LanguageModel:
    made = make("lstm-lm", inputs=(6,), classes=11, width=8, dropout=0.5)
    assert isinstance(made, LanguageModel)
    return made.eval()


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(11, (3, 12))


def test_consecutive_segments_are_one_text(model: LanguageModel, tokens: Tensor) -> None:
    whole = model(tokens)
    model.reset()
    halves = torch.cat([model(tokens[:, :5]), model(tokens[:, 5:])], dim=1)
    assert whole.shape == (3, 12, 11)
    assert torch.allclose(whole, halves, atol=1e-6)


def test_reset_forgets(model: LanguageModel, tokens: Tensor) -> None:
    first = model(tokens)
    assert not torch.allclose(model(tokens), first)
    model.reset()
    assert torch.equal(model(tokens), first)


def test_a_batch_of_another_size_begins_anew(model: LanguageModel, tokens: Tensor) -> None:
    first = model(tokens[:2])
    model(tokens)
    assert torch.equal(model(tokens[:2]), first)


def test_training_and_evaluation_do_not_see_each_others_text(model: LanguageModel, tokens: Tensor) -> None:
    first = model(tokens)
    model.train()(tokens)
    assert torch.equal(model.eval()(tokens), first)
    assert not torch.equal(model.eval()(tokens), first), "the same mode again is no change"


def test_gradients_stay_within_a_segment(model: LanguageModel, tokens: Tensor) -> None:
    model.train()
    for part in tokens.split(4, dim=1):
        functional.cross_entropy(
            model(part).flatten(0, 1), part.flatten()
        ).backward()  # would fail through a freed graph


def test_a_copy_begins_without_a_past_and_the_past_is_no_state(model: LanguageModel, tokens: Tensor) -> None:
    first = model(tokens)
    assert torch.equal(copy.deepcopy(model)(tokens), first)
    assert sorted(model.state_dict()) == sorted(name for name, _ in model.named_parameters())


def test_one_matrix_reads_and_writes(model: LanguageModel, tokens: Tensor) -> None:
    with torch.no_grad():
        model.embedding.weight[7] = 0
    assert torch.allclose(model(tokens)[..., 7], model.bias[7])


def test_it_learns_which_word_follows() -> None:
    made = make("lstm-lm", inputs=(6,), classes=5, width=16, layers=1, dropout=0.0)
    optimizer = torch.optim.SGD(made.parameters(), lr=2.0)
    text = torch.arange(40).reshape(2, 20) % 5
    for _ in range(60):
        loss = functional.cross_entropy(made(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
