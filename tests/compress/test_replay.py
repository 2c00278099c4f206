"""A replayed step is the step: the same weights as with kernels launched one by one, masks and rates included."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tightwire.compress import retrain, unfinished
from tightwire.compress.prune.gradual import Gradual, Target
from tightwire.compress.prune.masks import prunable
from tightwire.compress.replay import Replay
from tightwire.compress.retrain import Constraint, Examples, Free, Training, evaluate, train
from tightwire.compress.share.centroids import Centroids
from tightwire.compress.share.tensors import share
from tightwire.data.augment import crop_flip
from tightwire.models import make

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def examples() -> Examples:
    random = torch.Generator().manual_seed(3)
    x_N, y_N = torch.randn(640, 3, 32, 32, generator=random), torch.arange(640) % 10
    return Examples((x_N + y_N[:, None, None, None] / 4).cuda(), y_N.cuda(), crop_flip)


def held_by(kind: str, model: nn.Module) -> Constraint:
    match kind:
        case "masks":
            return Gradual(model, Target(0.2, "adaptive"), until=0.5, every=5)
        case "centroids":
            return Centroids(model, {name: share(weight, 8) for name, weight in prunable(model).items()})
    return Free(model)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("kind", ["free", "masks", "centroids"])
def test_replayed_and_launched_steps_agree(kind: str, optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(4)
    begin = make("resnet20", inputs=(3, 32, 32), classes=10).cuda()
    sgd = Training(epochs=6, batch=64, optimizer="sgd", lr=0.02, soft=0.5, temperature=2.0, precision="bfloat16")
    how = sgd if optimizer == "sgd" else Training(epochs=6, batch=64, soft=0.5)
    some, found, made = examples(), [], []

    class Watched(Replay):
        def __init__(self, step: object) -> None:
            super().__init__(step)  # type: ignore[arg-type]
            made.append(self)

    for replayed in (True, False):
        monkeypatch.setattr(retrain, "Replay", Watched if replayed else lambda step: step)
        model, teacher = deepcopy(begin), deepcopy(begin).eval()
        train(model, some, how, constraint=held_by(kind, model), teacher=teacher)
        found.append(model)
        for weight in prunable(model).values():
            assert weight.is_contiguous()
    assert made[0].recorded
    losses = [evaluate(model, some).loss for model in found]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)
    kept = [sum(int((weight != 0).sum()) for weight in prunable(model).values()) for model in found]
    assert kept[0] == kept[1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_compiled_steps_are_recorded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(4)
    begin, some, losses, made = make("resnet20", inputs=(3, 32, 32), classes=10).cuda(), examples(), [], []

    class Watched(Replay):
        def __init__(self, step: object) -> None:
            super().__init__(step)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(retrain, "Replay", Watched)
    for compiled in (True, False):
        model = deepcopy(begin)
        how = Training(epochs=6, batch=64, optimizer="sgd", lr=0.02, soft=0.5, precision="bfloat16", compiled=compiled)
        train(model, some, how, constraint=held_by("masks", model), teacher=deepcopy(begin).eval())
        losses.append(evaluate(model, some).loss)
    assert made[0].recorded and losses[0] == pytest.approx(losses[1], rel=0.1)


def test_a_cut_training_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished, "_EVERY_S", 0.0)
    some, how = examples(), Training(epochs=4, batch=64, optimizer="sgd", lr=0.02)
    torch.manual_seed(4)
    begin = make("resnet20", inputs=(3, 32, 32), classes=10).cuda()
    losses = []

    def cut(done: int, total: int) -> None:
        if done == total // 2:
            raise KeyboardInterrupt

    for broken in (False, True):
        model = deepcopy(begin)
        if broken:
            with pytest.raises(KeyboardInterrupt):
                train(model, some, how, constraint=held_by("masks", model), keep=tmp_path / "x", told=cut)
            model = deepcopy(begin)
        train(model, some, how, constraint=held_by("masks", model), keep=tmp_path / "x")
        losses.append(evaluate(model, some).loss)
        assert sum(int((w != 0).sum()) for w in prunable(model).values()) == round(0.2 * 268_336)
    assert losses[0] == pytest.approx(losses[1], rel=0.1) and not list(tmp_path.iterdir())


def test_what_waits_for_the_host_is_launched_with_a_notice() -> None:
    class Waiting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) * (1.0 if float(x.sum()) < 1e30 else 0.0)  # type: ignore[no-any-return]

    model, some = Waiting().cuda(), examples()
    before = evaluate(model, some).loss
    with pytest.warns(UserWarning, match="launched one by one"):
        train(model, some, Training(epochs=4, batch=64, lr=1e-3))
    assert evaluate(model, some).loss < before
    again = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
    train(again, some, Training(epochs=4, batch=64, lr=1e-3))  # and the next one is recorded as ever
    assert evaluate(again, some).loss < 2.4
