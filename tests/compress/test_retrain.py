"""The training loop: seeded, follows its settings, leaves modes as they were; crops, and equalised norms."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from tightwire.compress.equalise import equalise_
from tightwire.compress.errors import CompressError
from tightwire.compress.retrain import Examples, Training, evaluate, train
from tightwire.data.augment import MARGIN, crop_flip, shift
from tightwire.models import make


def examples(count: int = 200) -> Examples:
    x = torch.randn(count, 6)
    return Examples(x, (x[:, 0] > 0).long())


def small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize(
    "settings", [Training(epochs=2, batch=32), Training(epochs=2, batch=32, optimizer="sgd", lr=0.1)]
)
def test_the_same_seed_gives_the_same_weights(settings: Training) -> None:
    some, weights = examples(), []
    for seed in (0, 0, 1):
        model = small()
        train(model, some, Training(**{**settings.__dict__, "seed": seed}))
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_steps_are_counted_and_the_rate_falls() -> None:
    steps: list[tuple[int, int]] = []
    model = small().eval()
    train(model, examples(100), Training(epochs=2.5, batch=32), told=lambda *told: steps.append(told))
    assert steps[-1] == (8, 8) and not model.training  # 3 whole batches an epoch
    train(model, examples(5), Training(epochs=2, batch=32), told=lambda *told: steps.append(told))
    assert steps[-1] == (2, 2)  # fewer samples than a batch: the batch is all of them
    with pytest.raises(CompressError, match="optimizer='lion'"):
        train(model, examples(), Training(optimizer="lion"))  # type: ignore[arg-type]


@pytest.mark.parametrize("epochs", [1.0, 500.0])
def test_a_training_that_diverges_says_so_soon_and_keeps_nothing(epochs: float, tmp_path: Path) -> None:
    steps, kept = [], tmp_path / "kept.safetensors"
    how = Training(epochs=epochs, batch=100, optimizer="sgd", lr=1e30)
    with pytest.raises(CompressError, match=r"diverged: at step .* 0\.weight .* lr=1e\+30 is too large, give a"):
        train(small(), examples(), how, told=lambda done, total: steps.append(done), keep=kept)
    assert len(steps) < 200 and not kept.exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_compiled_steps_are_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        torch, "compile", partial(torch.compile, backend="aot_eager")
    )  # traced; C++ takes half a minute
    random = torch.Generator().manual_seed(5)
    some, found = Examples(torch.randn(40, 1, 6, 6, generator=random), torch.arange(40) % 3), []
    torch.manual_seed(2)
    begin = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    for compiled in (False, True):
        model, teacher = deepcopy(begin), deepcopy(begin).eval()
        how = Training(epochs=2, batch=10, optimizer="sgd", lr=0.1, soft=0.5, compiled=compiled)
        train(model, some, how, teacher=teacher)
        found.append(torch.cat([tensor.flatten() for tensor in model.state_dict().values()]))
    before = torch.cat([tensor.flatten() for tensor in begin.state_dict().values()])
    assert torch.allclose(*found, atol=1e-5) and not torch.allclose(before, found[0], atol=1e-2)


def test_a_teacher_is_followed() -> None:
    some, teacher = examples(), small()
    with torch.no_grad():
        teacher[2].weight.mul_(-5)  # type: ignore[index, operator, union-attr]
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    train(model, some, Training(epochs=40, batch=20, lr=0.02, soft=1.0), teacher=teacher.eval())
    agreement = (model(some.x_N).argmax(1) == teacher(some.x_N).argmax(1)).float().mean()
    assert agreement > 0.95 and evaluate(teacher, some).accuracy < 0.9


def test_a_warmer_teacher_tells_more_of_its_second_thoughts() -> None:
    some, apart = Examples(torch.ones(64, 1), torch.zeros(64, dtype=torch.long)), []
    for temperature in (1.0, 4.0):
        teacher, model = nn.Linear(1, 3), nn.Linear(1, 3)
        for network, bias in ((teacher, [12.0, 4.0, -4.0]), (model, [0.0, 0.0, 0.0])):
            nn.init.zeros_(network.weight)
            network.bias.data = torch.tensor(bias)
        train(model, some, Training(epochs=30, batch=64, lr=0.1, soft=1.0, temperature=temperature), teacher=teacher)
        answer = model(some.x_N[0]).detach()
        apart.append(float(answer[1] - answer[2]))
    assert 0 <= 3 * apart[0] < apart[1] < 8  # the teacher's is 8


def test_a_part_to_decide_by_is_apart() -> None:
    some = Examples(torch.arange(24.0)[:, None], torch.arange(24))
    rest, part = some.cut(12)
    assert part.y_N.tolist() == [11, 23] and sorted(rest.y_N.tolist() + part.y_N.tolist()) == list(range(24))


def test_crops_are_shifts_over_zeros_and_mirrors() -> None:
    x = torch.rand(64, 2, 6, 6) + 1
    out = crop_flip(x, torch.Generator().manual_seed(3))
    padded = nn.functional.pad(x, (MARGIN,) * 4)
    seen = set()
    for image, moved in zip(padded, out, strict=True):
        cuts = {
            (down, right, mirrored): image[:, down : down + 6, right : right + 6].flip([-1] if mirrored else [])
            for down in range(2 * MARGIN + 1)
            for right in range(2 * MARGIN + 1)
            for mirrored in (False, True)
        }
        places = [place for place, cut in cuts.items() if torch.equal(moved, cut)]
        assert places
        seen.add(places[0])
    assert len(seen) > 30 and {mirrored for _, _, mirrored in seen} == {True, False}


@pytest.mark.parametrize("name", ["resnet20", "mobilenet-v2"])
def test_an_equalised_network_is_the_same_network(name: str) -> None:
    model = make(name, inputs=(3, 32, 32), classes=10)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 2)
            nn.init.normal_(module.running_mean, 0, 0.3)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    model.eval()
    x, before = torch.randn(4, 3, 32, 32), deepcopy(model)
    done = equalise_(model)
    assert len(done) == sum(isinstance(m, nn.Conv2d) for m in model.modules())
    with torch.no_grad():
        assert torch.allclose(model(x), before(x), rtol=1e-3, atol=1e-4)
    for path in done:
        filters = model.get_submodule(path).weight.flatten(1).square().mean(1)  # type: ignore[operator, union-attr]
        assert filters.max() <= 1.01 * filters.min()


def test_shifts_repeat_the_border() -> None:
    x = torch.rand(32, 1, 6, 6)
    out = shift(x, torch.Generator().manual_seed(3))
    padded = nn.functional.pad(x, (2,) * 4, mode="replicate")
    for image, moved in zip(padded, out, strict=True):
        cuts = [image[:, down : down + 6, right : right + 6] for down in range(5) for right in range(5)]
        assert any(torch.equal(moved, cut) for cut in cuts)
    assert not torch.equal(out, x)
