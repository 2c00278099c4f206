"""`tightwire inspect`: a table, a plot, JSON, and one sentence for what is no such file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.compress.artifact.making import small
from tightwire.cli.app import app
from tightwire.compress.artifact import save
from tightwire.compress.errors import ArtifactError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save(small(), tmp_path / "m.twz")
    return tmp_path / "m.twz"


def test_a_table_that_adds_up(file: Path) -> None:
    done = CliRunner().invoke(app, ["inspect", str(file)])
    assert done.exit_code == 0
    assert "12×16" in done.stdout and "3.bias" in done.stdout
    assert f"{file.stat().st_size:,}" in done.stdout.splitlines()[-1]


def test_json_and_plots(file: Path, tmp_path: Path) -> None:
    for name in ("p.svg", "p.html"):
        done = CliRunner().invoke(app, ["inspect", str(file), "--plot", str(tmp_path / name), "--json", "-"])
        assert done.exit_code == 0
        found = json.loads(done.stdout)
        parts = found["header_nbytes"] + found["digest_nbytes"] + sum(t["nbytes"] for t in found["tensors"])
        assert parts == found["nbytes"] == file.stat().st_size
        assert found["model"]["name"] == "mlp" and found["facts"]["test_accuracy"] == 0.5
        assert "5.weight" in (tmp_path / name).read_text(encoding="utf-8")


def test_how_each_layer_runs_here(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # nothing of another run is remembered
    done = CliRunner().invoke(app, ["inspect", str(file), "--batch", "2", "--json", str(tmp_path / "r.json")])
    assert done.exit_code == 0
    runs = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["runs"]
    assert [run["layer"] for run in runs] == ["1", "3", "5"]
    assert all(run["form"] in run["seconds"] for run in runs)
    assert "(12, 16) at" in done.stdout


def test_what_is_no_such_file(tmp_path: Path) -> None:
    (tmp_path / "m.twz").write_text("hello")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "m.twz")])
    assert isinstance(done.exception, ArtifactError)  # which `main` prints as one sentence, with status 2
