"""Every network: parameters to the last one, shapes, plain sequences where they get cut, and clear refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tightwire.models import MODELS, ModelError, describe, make
from tightwire.splits.stages import stage_of

SEQUENTIAL = ("mlp", "lenet-300-100", "lenet-5", "dnn7", "cnn", "vgg16", "alexnet")
OWN = """
from torch import nn

linear = lambda *, inputs, classes, bias=True: nn.Linear(inputs[0], classes, bias=bias)
bare = lambda x: x
number = lambda *, inputs, classes: 5
"""


def on_paper(name: str, inputs: tuple[int, ...], classes: int, **options: object) -> nn.Module:
    """A network without memory for its weights."""
    with torch.device("meta"):
        return make(name, inputs=inputs, classes=classes, **options)


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_of_the_catalogue(name: str) -> None:
    entry = describe(name)
    assert entry.name == name and entry.what and entry.paper
    assert count(on_paper(name, entry.inputs, entry.classes)) == entry.parameters


@pytest.mark.parametrize(
    ("name", "parameters", "one_dimensional"),
    [("resnet50", 25_557_032, 54_120), ("alexnet", 60_965_224, 10_568), ("lstm-lm", 51_034_000, 34_000)],
)
def test_published_counts(name: str, parameters: int, one_dimensional: int) -> None:
    """Those behind the ratios of the DGC paper, with what one-dimensional tensors hold (docs/recipes/dgc.md)."""
    entry = describe(name)
    model = on_paper(name, entry.inputs, entry.classes)
    assert count(model) == parameters
    assert sum(p.numel() for p in model.parameters() if p.ndim == 1) == one_dimensional


@pytest.mark.parametrize(
    ("name", "inputs", "classes", "options", "parameters"),
    [
        ("mlp", (784,), 10, {"hidden": (20,)}, 785 * 20 + 210),
        ("lenet-300-100", (784,), 10, {}, 266_610),
        ("lenet-5", (3, 32, 32), 10, {}, 3 * 500 + 20 + 25_050 + 1250 * 500 + 500 + 5010),
        ("dnn7", (462,), 10_217, {}, 47_060_969),
        ("cnn", (3, 32, 32), 10, {}, 545_098),
        ("resnet20", (3, 32, 32), 10, {"shortcut": "project"}, 272_474),
        ("resnet18", (3, 32, 32), 10, {}, 11_173_962),
        ("resnet18", (3, 32, 32), 10, {"stem": "large"}, 11_181_642),
        ("vgg16", (3, 32, 32), 10, {}, 14_982_474),
        ("vgg16", (3, 32, 32), 10, {"norm": "batch"}, 14_982_474 + 2 * 4224),
        ("vgg16", (3, 32, 32), 10, {"norm": "batch", "width": 0.25}, 9 * 102_192 + 3 * 1056 + 129 * 128 + 129 * 10),
        ("alexnet", (3, 224, 224), 1000, {}, 60_965_224),
        ("lstm-lm", (35,), 10_000, {"width": 200}, 10_000 * 201 + 2 * (8 * 200 * 200 + 8 * 200)),
    ],
)
def test_options_and_other_inputs(
    name: str, inputs: tuple[int, ...], classes: int, options: dict[str, object], parameters: int
) -> None:
    assert count(on_paper(name, inputs, classes, **options)) == parameters


@pytest.mark.parametrize("name", MODELS)
def test_logits_have_a_number_for_each_class(name: str) -> None:
    entry = describe(name)
    model = on_paper(name, entry.inputs, entry.classes)
    tokens = entry.wants == "tokens"
    x = torch.empty(2, *entry.inputs, device="meta", dtype=torch.int64 if tokens else torch.float32)
    assert model(x).shape == ((2, *entry.inputs, entry.classes) if tokens else (2, entry.classes))


@pytest.mark.parametrize("name", [n for n, entry in MODELS.items() if entry.wants != "tokens"])
@pytest.mark.parametrize("inputs", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 224, 224)])
def test_images_of_every_size_fit_or_are_refused(name: str, inputs: tuple[int, int, int]) -> None:
    small = {"lenet-5": 16, "vgg16": 32, "alexnet": 67}.get(name, 1)
    if inputs[1] < small:
        with pytest.raises(ModelError, match=f"at least {small}×{small}, not {inputs[1]}×{inputs[2]}"):
            on_paper(name, inputs, 10)
    else:
        assert on_paper(name, inputs, 10)(torch.empty(2, *inputs, device="meta")).shape == (2, 10)


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_sequences_are_plain_and_can_be_cut(name: str) -> None:
    entry = describe(name)
    model = on_paper(name, entry.inputs, entry.classes)
    assert type(model) is nn.Sequential
    assert all(not list(layer.children()) for layer in model)
    x = torch.empty(2, *entry.inputs, device="meta")
    for stage in range(3):
        x = stage_of(model, 3, stage, None)(x)
    assert x.shape == (2, entry.classes)


@pytest.mark.parametrize(
    ("name", "inputs", "options"),
    [
        ("mlp", (64,), {}),
        ("lenet-300-100", (64,), {}),
        ("lenet-5", (1, 16, 16), {}),
        ("cnn", (1, 8, 8), {}),
        ("dnn7", (64,), {"width": 64}),
        ("dnn7", (64,), {"width": 64, "activation": "relu"}),
        ("dnn7", (64,), {"width": 64, "activation": "tanh"}),
        ("resnet20", (1, 8, 8), {}),
        ("resnet20", (1, 8, 8), {"shortcut": "project", "last_gamma": 0.0}),
    ],
)
def test_networks_learn_a_batch_by_heart(name: str, inputs: tuple[int, ...], options: dict[str, object]) -> None:
    model = make(name, inputs=inputs, classes=4, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2 if options == {"width": 64} else 0.05, momentum=0.9)
    x, y = torch.randn(16, *inputs), torch.arange(16) % 4
    losses = []
    for _ in range(60):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_seven_sigmoids_pass_a_gradient_on() -> None:
    model = make("dnn7", inputs=(462,), classes=20, width=128)
    functional.cross_entropy(model(torch.randn(64, 462)), torch.arange(64) % 20).backward()
    norms = [float(layer.weight.grad.norm()) for layer in model.children() if isinstance(layer, nn.Linear)]  # type: ignore[union-attr]
    assert len(norms) == 8
    assert min(norms[:-1]) > 0.02 * max(norms[:-1])


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_models.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_models", raising=False)
    return "own_models"


def test_your_own_gets_inputs_classes_and_options(own: str) -> None:
    assert count(make(f"{own}:linear", inputs=(5,), classes=3)) == 18
    assert count(make(f"{own}:linear", inputs=(5,), classes=3, bias=False)) == 15


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("own_models:bare", "must take inputs, classes"),
        ("own_models:number", "it must return an nn.Module"),
        ("own_models:nothing", "has no function 'nothing'"),
        ("nowhere_to_be_found:net", "PYTHONPATH"),
        (":net", "is not module:function"),
        ("resnet34", "there is no model 'resnet34'; there are mlp, "),
    ],
)
def test_what_is_no_model_is_refused(name: str, says: str, own: str) -> None:
    with pytest.raises(ModelError, match=says):
        make(name, inputs=(5,), classes=3)


@pytest.mark.parametrize(
    ("name", "inputs", "options", "says"),
    [
        ("cnn", (64,), {}, "takes images"),
        ("resnet20", (64,), {}, "takes images"),
        ("cnn", (1, 2, 2), {}, "at least 4×4"),
        ("lstm-lm", (1, 8, 8), {}, "takes segments of tokens"),
        ("mlp", (64,), {"depth": 3}, "mlp has no option 'depth'; it has hidden"),
        ("cnn", (1, 8, 8), {"norm": "batch"}, "cnn has no option 'norm'; it has none"),
        ("dnn7", (64,), {"activation": "gelu"}, "choose from sigmoid, tanh, relu"),
        ("dnn7", (64,), {"width": 0}, "width=0"),
        ("mlp", (64,), {"hidden": (0,)}, "hidden"),
        ("resnet56", (3, 32, 32), {"shortcut": "B"}, "choose from pad, project"),
        ("resnet50", (3, 32, 32), {"stem": "tiny"}, "choose from auto, large, small"),
        ("resnet50", (3, 16, 16), {"stem": "large"}, "at least 32×32"),
        ("vgg16", (3, 32, 32), {"norm": "layer"}, "choose from none, batch"),
        ("vgg16", (3, 32, 32), {"width": 0.01}, "width=0.01"),
        ("vgg16", (3, 32, 32), {"width": "quarter"}, "width='quarter' must be a number, such as 1.0"),
        ("vgg16", (3, 32, 32), {"width": True}, "must be a number"),
        ("dnn7", (64,), {"width": 0.5}, "width=0.5 must be a whole number, such as 2048"),
        ("mlp", (64,), {"hidden": 3}, "hidden=3 must be a list"),
        ("lstm-lm", (35,), {"dropout": 1.0}, "dropout=1.0"),
        ("lstm-lm", (35,), {"layers": 0}, "layers=0"),
        ("mlp", (), {}, "must be whole numbers"),
        ("mlp", (0,), {}, "must be whole numbers"),
    ],
)
def test_what_does_not_fit_is_refused(
    name: str, inputs: tuple[int, ...], options: dict[str, object], says: str
) -> None:
    with pytest.raises(ModelError, match=says):
        make(name, inputs=inputs, classes=3, **options)


def test_no_classes_are_refused() -> None:
    with pytest.raises(ModelError, match="classes=0"):
        make("mlp", inputs=(4,), classes=0)
