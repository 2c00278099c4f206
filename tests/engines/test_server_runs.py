"""Runs with a parameter server, in one process: stopped anywhere, resumed, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tightwire.engines.config import RunConfig
from tightwire.engines.inside import run_inside
from tightwire.engines.outcome import read_outcomes, stop_file
from tightwire.engines.start import RunStopped, judge, prepare, run

STEPS, WORKERS = 30, 4
PUSHES = {"asgd": 120, "hardsync": 120, "ssp": 120, "backup-workers": 120, "omnivore": 60, "agn": 24, "easgd": 12}


@pytest.mark.parametrize("recipe", PUSHES)
def test_a_run_that_was_stopped_goes_on_and_every_push_is_counted_once(tmp_path: Path, recipe: str) -> None:
    config = prepare(RunConfig(recipe=recipe, steps=STEPS, workers=WORKERS, folder=str(tmp_path), save_every=15))
    stop_file(tmp_path).touch()
    run_inside(config, resume=False)
    with pytest.raises(RunStopped, match="stopped at step 10"):
        judge(config, read_outcomes(tmp_path))
    result = run(config, resume=True)
    assert result["steps"] == STEPS
    assert sum(result["staleness"]["counts"].values()) + result["staleness"]["dropped"] == PUSHES[recipe]
