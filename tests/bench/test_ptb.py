"""The Penn Treebank benchmark goes on where its newest checkpoint ended, with the log that belongs to it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks import ptb

from tightwire.models.lstm import lstm_lm
from tightwire.run.checkpoint import latest

Run = Callable[..., list[dict[str, float]]]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of one arm for so many epochs in all, with a tiny network and text, on a CPU."""
    text = tmp_path / "text"
    text.mkdir()
    for part in ("train", "valid", "test"):
        (text / f"ptb.{part}.txt").write_text("one two three four five six seven\n" * 500)
    monkeypatch.setattr(ptb.models, "make", lambda *_, **__: lstm_lm((35,), 10, width=12, layers=1, dropout=0.1))

    def run(arm: str, epochs: int, *more: str) -> list[dict[str, float]]:
        words = ["ptb", arm, "--folder", str(text), "--epochs", str(epochs), "--steps", "2", "--device", "cpu"]
        monkeypatch.setattr(sys, "argv", [*words, "--state", str(tmp_path / arm), *more])
        ptb.main()
        found: list[dict[str, float]] = json.loads((tmp_path / arm / "log.json").read_text())
        return found

    return run


@pytest.mark.parametrize("arm", ["sync-sgd", "dgc"])
def test_a_run_in_two_calls_is_a_run_in_one(arm: str, started: Run, tmp_path: Path) -> None:
    whole = started(arm, 3)
    (tmp_path / arm).rename(tmp_path / "whole")
    assert [row["epoch"] for row in started(arm, 1)] == [1]
    cut = started(arm, 3)
    assert [row["epoch"] for row in cut] == [1, 2, 3]
    assert cut[0]["valid"] == whole[0]["valid"]
    assert cut[1]["seconds"] > cut[0]["seconds"]


def test_a_log_that_is_behind_its_checkpoint_is_not_believed(started: Run, tmp_path: Path) -> None:
    """Killed after a checkpoint, before `log.json`: the epoch of the checkpoint is not run again."""
    first = started("sync-sgd", 1)
    started("sync-sgd", 2)
    (tmp_path / "sync-sgd" / "log.json").write_text(json.dumps(first))
    assert [row["epoch"] for row in started("sync-sgd", 3)] == [1, 2, 3]
    newest = latest(tmp_path / "sync-sgd" / "checkpoint")
    assert newest is not None and newest.name == "step-00000006"


def test_epochs_without_a_checkpoint_are_run_again(started: Run, tmp_path: Path) -> None:
    log = started("sync-sgd", 3, "--save-every", "2")
    assert [row["epoch"] for row in log] == [1, 2, 3]
    assert sorted(path.name for path in (tmp_path / "sync-sgd").glob("log-*.json")) == ["log-4.json", "log-6.json"]
