"""A network loaded from a file runs from it, and computes what the dense one of the same file computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.compress.run.test_build import shared
from tightwire import compress, models
from tightwire.compress.artifact import Architecture, Artifact, Tensor, read, save
from tightwire.compress.artifact import build as dense_build
from tightwire.compress.errors import ArtifactError
from tightwire.compress.run import FORMS, FormName, choices


def artifact(name: str, inputs: tuple[int, ...]) -> Artifact:
    """A network of the catalogue with all its large tensors shared."""
    net = models.make(name, inputs=inputs, classes=10)
    tensors: dict[str, Tensor] = {
        key: shared(tuple(value.shape)) if value.dim() > 1 else value.numpy().copy()
        for key, value in net.state_dict().items()
    }
    return Artifact(tensors, Architecture(name, inputs, 10))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module", params=[("cnn", (1, 8, 8)), ("resnet20", (3, 16, 16))], ids=["cnn", "resnet20"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model.twz"
    save(artifact(*request.param), path)
    return path


@pytest.mark.parametrize("form", [*FORMS, None])
def test_loading_gives_what_the_file_holds(saved: Path, form: FormName | None, tmp_path: Path) -> None:
    net = compress.load(saved, batch=2, form=form)
    architecture = read(saved).architecture
    assert architecture is not None
    x = torch.randn(2, *architecture.inputs)
    with torch.no_grad():
        want = dense_build(read(saved))(x)
    got = net(x)
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-5 * float(want.abs().max()))
    assert not any(isinstance(module, nn.Linear | nn.Conv2d) for module in net.modules())
    assert (tmp_path / "cache" / "tightwire" / "forms.json").exists() == (form is None)
    assert all(choice.form in ([form] if form else FORMS) for choice in choices(net))


def test_a_file_without_a_network_or_with_another_is_refused(tmp_path: Path) -> None:
    whole = artifact("mlp", (64,))
    save(Artifact(whole.tensors), tmp_path / "nameless.twz")
    with pytest.raises(ArtifactError, match="names no network"):
        compress.load(tmp_path / "nameless.twz")
    short = {name: tensor for name, tensor in whole.tensors.items() if name != "5.bias"}
    save(Artifact(short, whole.architecture), tmp_path / "short.twz")
    with pytest.raises(ArtifactError, match=r"5.bias and mlp do not belong together"):
        compress.load(tmp_path / "short.twz", form="compressed")
    more = {**whole.tensors, "more": np.zeros(3, np.float32)}
    save(Artifact(more, whole.architecture), tmp_path / "more.twz")
    with pytest.raises(ArtifactError, match="more and"):
        compress.load(tmp_path / "more.twz", form="compressed")
