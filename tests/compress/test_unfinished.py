"""A training that is cut off goes on to the same weights, whatever is held while it trains."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tightwire.compress import unfinished
from tightwire.compress.errors import CompressError
from tightwire.compress.prune.gradual import Gradual, Target
from tightwire.compress.prune.masks import prunable
from tightwire.compress.retrain import Constraint, Examples, Free, Training, train
from tightwire.compress.share.centroids import Centroids
from tightwire.compress.share.tensors import share
from tightwire.data.augment import crop_flip

ADAM, SGD = Training(epochs=3, batch=20, lr=0.01), Training(epochs=3, batch=20, optimizer="sgd", lr=0.1)


def network() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


def examples() -> Examples:
    random = torch.Generator().manual_seed(3)
    return Examples(torch.randn(100, 1, 8, 8, generator=random), torch.arange(100) % 3, crop_flip)


def gradual(model: nn.Module) -> Constraint:
    return Gradual(model, Target(0.2, "network"), until=0.6, every=2)


def centroids(model: nn.Module) -> Constraint:
    return Centroids(model, {name: share(weight, 4) for name, weight in prunable(model).items()})


class CutError(Exception):
    """Power is gone."""


def cut_at(step: int) -> Callable[[int, int], None]:
    def told(done: int, total: int) -> None:
        if done == step:
            raise CutError

    return told


@pytest.mark.parametrize("settings", [ADAM, SGD], ids=["adamw", "sgd"])
@pytest.mark.parametrize("held", [Free, gradual, centroids])
def test_a_cut_training_ends_with_the_same_weights(
    settings: Training, held: Callable[[nn.Module], Constraint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished, "_EVERY_S", 0.0)
    whole, cut, some = network(), network(), examples()
    train(whole, some, settings, constraint=held(whole))
    for step in (4, 11):
        with pytest.raises(CutError):
            train(cut, some, settings, constraint=held(cut), told=cut_at(step), keep=tmp_path / "x")
        cut = network()  # a new process knows nothing
    train(cut, some, settings, constraint=held(cut), keep=tmp_path / "x")
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), cut.state_dict().values(), strict=True))
    assert not list(tmp_path.iterdir())


def test_another_training_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished, "_EVERY_S", 0.0)
    model, some, path = network(), examples(), tmp_path / "x"
    with pytest.raises(CutError):
        train(model, some, ADAM, told=cut_at(2), keep=path)
    with pytest.raises(CompressError, match="other settings; remove"):
        train(deepcopy(model), some, SGD, keep=path)
    save_file({"step": torch.tensor(3)}, path, metadata={"settings": f"{ADAM} 100"})
    with pytest.raises(CompressError, match="cannot be gone on with"):
        train(deepcopy(model), some, ADAM, keep=path)
    path.write_bytes(b"no tensors")
    with pytest.raises(CompressError, match="cannot be gone on with"):
        train(deepcopy(model), some, ADAM, keep=path)


def test_nothing_is_kept_of_a_short_training(tmp_path: Path) -> None:
    seen = []
    train(network(), examples(), ADAM, keep=tmp_path / "x", told=lambda *_: seen.extend(tmp_path.iterdir()))
    assert not seen
