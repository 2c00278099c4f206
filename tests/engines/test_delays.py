"""Pretended computing times: drawn by counting, refused when unreadable, and decisive in one process."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import pytest

from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.delays import parse_delays
from tightwire.engines.start import run


def test_times_are_lognormal_and_repeat() -> None:
    delays = parse_delays("lognormal:0.5", "2:5x", seed=3)
    logs = [log(delays.seconds(0, step)) for step in range(2000)]
    mean = sum(logs) / len(logs)
    spread = (sum((value - mean) ** 2 for value in logs) / len(logs)) ** 0.5
    assert mean == pytest.approx(0, abs=0.05)
    assert spread == pytest.approx(0.5, abs=0.05)
    assert delays.seconds(1, 7) == parse_delays("lognormal:0.5", None, seed=3).seconds(1, 7)
    assert delays.seconds(2, 7) == pytest.approx(5 * parse_delays("lognormal:0.5", None, seed=3).seconds(2, 7))
    assert delays.seconds(1, 7) != parse_delays("lognormal:0.5", None, seed=4).seconds(1, 7)


@pytest.mark.parametrize("delays", ["normal:1", "lognormal", "lognormal:-1", "lognormal:wide", ""])
def test_unreadable_delays_are_refused(delays: str) -> None:
    if delays:
        with pytest.raises(ConfigError, match=r"lognormal:0\.5"):
            parse_delays(delays, None, 0)
    else:
        assert parse_delays(delays, None, 0).sigma == 0.1


@pytest.mark.parametrize("straggler", ["2", "x:5x", "2:0x", "-1:5x", "2:fast"])
def test_unreadable_stragglers_are_refused(straggler: str) -> None:
    with pytest.raises(ConfigError, match="2:5x"):
        parse_delays(None, straggler, 0)


def config(folder: Path, recipe: str, **more: object) -> RunConfig:
    return RunConfig(recipe=recipe, folder=str(folder), steps=20, workers=4, **more)  # type: ignore[arg-type]


def test_real_processes_do_not_pretend(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave out --delays"):
        run(config(tmp_path, "sync-sgd", straggler="1:5x"))


def test_a_slow_worker_costs_what_the_schedule_says(tmp_path: Path) -> None:
    took = {}
    for recipe in ("hardsync", "backup-workers", "asgd", "ssp"):
        result = run(config(tmp_path / recipe, recipe, straggler="2:5x"))
        took[recipe] = result["pretended_seconds"]
    assert took["hardsync"] == pytest.approx(100, rel=0.2)
    assert took["ssp"] == pytest.approx(took["hardsync"], rel=0.25), "no bound helps against one that is slow for ever"


def test_staleness_is_reported_with_its_counts(tmp_path: Path) -> None:
    result = run(config(tmp_path, "asgd"))
    saved = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert saved["staleness"] == result["staleness"]
    counts = result["staleness"]["counts"]
    assert sum(counts.values()) == 80
    assert result["staleness"]["max"] == max(map(int, counts))
    mean = sum(int(age) * count for age, count in counts.items()) / 80
    assert result["staleness"]["mean"] == pytest.approx(mean)
    assert result["staleness"]["dropped"] == 0
