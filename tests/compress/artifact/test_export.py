"""`tightwire export`: dense files, and one sentence for what cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from tests.compress.artifact.making import small
from tightwire.cli.app import app
from tightwire.compress.artifact import save
from tightwire.compress.errors import ArtifactError


def test_the_command(tmp_path: Path) -> None:
    save(small(), tmp_path / "m.twz")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "m.twz"), str(tmp_path / "m.safetensors")])
    assert done.exit_code == 0
    written = load_file(tmp_path / "m.safetensors")
    assert all(torch.equal(written[name], tensor) for name, tensor in small().state_dict().items())


@pytest.mark.parametrize(
    ("out", "said"), [("m.txt", "neither"), ("m.twz/m.safetensors", "cannot be written"), ("m.twz/m.onnx", "onnx")]
)
def test_what_cannot_be_written(out: str, said: str, tmp_path: Path) -> None:
    save(small(), tmp_path / "m.twz")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "m.twz"), str(tmp_path / out)])
    assert isinstance(done.exception, ArtifactError) and said in str(done.exception)
