"""`tightwire chaos`: what it prints, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tightwire.algebra.errors import UsageError
from tightwire.cli.app import app
from tightwire.engines.config import ConfigError, RunConfig


def test_worlds_that_go_well_are_counted(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    result = CliRunner().invoke(app, ["chaos", "--simulated", "30", "--json", str(told)])
    assert result.exit_code == 0, result.output
    assert "30 simulated worlds" in result.output
    assert json.loads(told.read_text())["simulated"]["failed"] == []


def test_a_seed_that_fails_is_named_with_the_command_that_shows_it() -> None:
    result = CliRunner().invoke(app, ["chaos", "--bug", "forget-numbers"])
    assert result.exit_code == 1
    command = result.output.partition("again: tightwire ")[2].split()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 1 and "──▶" in again.output
    assert result.output.splitlines()[0] in again.output


def test_a_mistake_that_nobody_makes_is_refused() -> None:
    with pytest.raises(UsageError, match="acknowledge-first"):
        CliRunner().invoke(app, ["chaos", "--bug", "none"], catch_exceptions=False)


def test_copies_need_as_many_servers() -> None:
    with pytest.raises(ConfigError, match="name that many"):
        RunConfig(recipe="asgd", copies=2, server="grpc://127.0.0.1:7000")
    access = RunConfig(recipe="asgd", copies=2, server="grpc://127.0.0.1:7000,grpc://127.0.0.1:7001").access
    assert access is not None and access.copies == 2
    assert RunConfig(recipe="asgd", copies=1, server="grpc://127.0.0.1:7000").access.copies == 1  # type: ignore[union-attr]
    assert RunConfig(recipe="asgd", server="grpc://127.0.0.1:7000").access.copies is None  # type: ignore[union-attr]
