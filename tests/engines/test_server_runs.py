"""Runs with a parameter server, in one process and in real ones: stopped anywhere, resumed, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tightwire.engines.config import RunConfig
from tightwire.engines.inside import run_inside
from tightwire.engines.local import run_processes
from tightwire.engines.outcome import read_outcomes, stop_file
from tightwire.engines.start import RunStopped, judge, prepare, run

STEPS, WORKERS = 30, 4
PUSHES = {"asgd": 120, "hardsync": 120, "ssp": 120, "backup-workers": 120, "omnivore": 60, "agn": 24, "easgd": 12}


@pytest.mark.parametrize("recipe", PUSHES)
def test_a_run_that_was_stopped_goes_on_and_every_push_is_counted_once(tmp_path: Path, recipe: str) -> None:
    config = prepare(
        RunConfig(
            recipe=recipe, steps=STEPS, workers=WORKERS, folder=str(tmp_path), save_every=15, engine="inside"
        )
    )  # fmt: skip
    stop_file(tmp_path).touch()
    run_inside(config, resume=False)
    with pytest.raises(RunStopped, match="stopped at step 10"):
        judge(config, read_outcomes(tmp_path))
    result = run(config, resume=True)
    assert result["steps"] == STEPS
    assert sum(result["staleness"]["histogram"].values()) + result["staleness"]["dropped"] == PUSHES[recipe]


def steps_of(folder: Path) -> list[int]:
    """How often each worker stepped, by its events."""
    files = sorted((folder / "events").glob("rank-*.jsonl"))
    return [
        sum(json.loads(line)["event"] == "Stepped" for line in file.read_text(encoding="utf-8").splitlines())
        for file in files
    ]


@pytest.mark.processes
def test_real_workers_run_apart_are_stopped_go_on_and_end_together(tmp_path: Path) -> None:
    config = prepare(
        RunConfig(
            recipe="asgd", samples=3200, batch=8, workers=WORKERS, folder=str(tmp_path), save_every=30,
            delays="lognormal:0:3ms", straggler="2:10x", restarts=0,
        )
    )  # fmt: skip
    stop_file(tmp_path).touch()
    run_processes(config, resume=False)
    with pytest.raises(RunStopped):
        judge(config, read_outcomes(tmp_path))
    result = run(config, resume=True)
    steps = steps_of(tmp_path)
    assert steps[2] < 0.5 * min(steps[0], steps[1], steps[3]), f"a slow worker takes fewer steps: {steps}"
    assert 3200 <= result["samples"] < 3200 + 8 * WORKERS * 2
    assert abs(8 * sum(steps) - result["samples"]) <= 8 * sum(steps) * 0.05, "what was done before it stopped counts"
    assert sum(result["staleness"]["histogram"].values()) == sum(steps), "every push once, also across the stop"
    assert result["staleness"]["max"] >= 3
    assert result["wire"]["link"] == "loopback"
