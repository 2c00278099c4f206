"""A budget of samples: reached by all together, without what servers dropped, and across a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tightwire.engines.budget import Budget
from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.inside import run_inside
from tightwire.engines.outcome import read_outcomes, stop_file
from tightwire.engines.start import RunStopped, judge, prepare, run

WORKERS, BATCH = 4, 8


def config(folder: Path, recipe: str, **more: Any) -> RunConfig:
    return RunConfig(
        recipe=recipe, folder=str(folder), workers=WORKERS, batch=BATCH, engine="inside", **{"samples": 500, **more}
    )


@pytest.mark.parametrize("recipe", ["sync-sgd", "hardsync", "omnivore"])
def test_workers_in_lockstep_stop_together(tmp_path: Path, recipe: str) -> None:
    result = run(config(tmp_path, recipe))
    assert result["steps"] == 16 and result["samples"] == 16 * WORKERS * BATCH
    assert {outcome.step for outcome in read_outcomes(tmp_path).values()} == {16}


@pytest.mark.parametrize("recipe", ["asgd", "easgd", "ssp"])
def test_workers_that_run_apart_end_when_all_have_done_enough(tmp_path: Path, recipe: str) -> None:
    result = run(config(tmp_path, recipe, straggler="2:5x", samples=1000))
    steps = [outcome.step for outcome in read_outcomes(tmp_path).values()]
    assert result["samples"] == BATCH * sum(steps)
    assert 1000 <= result["samples"] <= 1000 + WORKERS * BATCH
    if recipe != "ssp":
        assert 3 * steps[2] < min(steps[0], steps[1], steps[3]), steps


def test_what_a_server_dropped_does_not_count(tmp_path: Path) -> None:
    result = run(config(tmp_path, "backup-workers", straggler="2:5x", samples=1000))
    stale = result["staleness"]
    assert stale["dropped"] > 0
    assert result["samples"] == BATCH * sum(stale["histogram"].values())


def test_epochs_of_workers_that_run_apart_are_samples_of_all(tmp_path: Path) -> None:
    result = run(config(tmp_path, "asgd", samples=None, epochs=1.0, straggler="2:5x"))
    steps = [outcome.step for outcome in read_outcomes(tmp_path).values()]
    assert 1437 <= result["samples"] <= 1437 + WORKERS * BATCH
    assert 3 * steps[2] < min(steps[0], steps[1], steps[3]), steps


@pytest.mark.parametrize("recipe", ["sync-sgd", "asgd"])
def test_a_stop_forgets_nothing(tmp_path: Path, recipe: str) -> None:
    made = prepare(config(tmp_path, recipe, samples=1000, save_every=7, straggler="1:3x"))
    stop_file(tmp_path).touch()
    run_inside(made, resume=False)
    with pytest.raises(RunStopped):
        judge(made, read_outcomes(tmp_path))
    stopped = [outcome.step for outcome in read_outcomes(tmp_path).values()]
    result = run(made, resume=True)
    steps = [outcome.step for outcome in read_outcomes(tmp_path).values()]
    assert all(before <= after for before, after in zip(stopped, steps, strict=True))
    assert result["samples"] == BATCH * sum(steps)
    assert 1000 <= result["samples"] <= 1000 + WORKERS * BATCH


def test_phases_of_workers_that_run_apart_are_counted_in_steps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give --steps or --epochs"):
        run(config(tmp_path, "downpour", params={"warm": 4}))


@pytest.mark.parametrize("more", [{"steps": 3}, {"epochs": 1.0}, {"samples": 0}])
def test_one_budget_at_a_time(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"give one of them|at least 1"):
        config(tmp_path, "asgd", **more)


class _Wire:
    """As much of a wire as a budget looks at."""

    size, lockstep, applied, clock = WORKERS, False, True, 0

    def __init__(self) -> None:
        self.counted = 0

    def count(self, name: str, amount: int) -> int:
        self.counted += amount
        return self.counted


class _Share:
    seen, samples = 0, 100

    def __len__(self) -> int:
        return 4


def test_how_much_has_passed_is_how_many_samples_were_applied(tmp_path: Path) -> None:
    wire = _Wire()
    budget = Budget(config(tmp_path, "asgd", samples=100), wire, _Share())  # type: ignore[arg-type]
    budget.begin()
    budget.took(25)
    assert budget.passed == 0.25 and not budget.is_over()
    wire.applied = False
    budget.took(25)
    assert budget.passed == 0.25
    wire.counted += 75  # others
    budget.look()
    assert budget.passed == 1.0 and budget.is_over()
