"""Slow steps: drawn by counting, refused when unreadable, pretended in one process and slept in real ones."""

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
    logs = [log(delays.factor(0, step)) for step in range(2000)]
    mean = sum(logs) / len(logs)
    spread = (sum((value - mean) ** 2 for value in logs) / len(logs)) ** 0.5
    assert mean == pytest.approx(0, abs=0.05)
    assert spread == pytest.approx(0.5, abs=0.05)
    assert delays.factor(1, 7) == parse_delays("lognormal:0.5", None, seed=3).factor(1, 7)
    assert delays.factor(2, 7) == pytest.approx(5 * parse_delays("lognormal:0.5", None, seed=3).factor(2, 7))
    assert delays.factor(1, 7) != parse_delays("lognormal:0.5", None, seed=4).factor(1, 7)


@pytest.mark.parametrize(
    "delays",
    [
        "normal:1", "lognormal", "lognormal:-1", "lognormal:wide", "lognormal:nan", "", "lognormal:1:fast",
        "lognormal:1:-2ms", "lognormal:1:2h", "lognormal:1:2ms:3", "lognormal:1:2",
    ],
)  # fmt: skip
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
    return RunConfig(recipe=recipe, folder=str(folder), steps=20, workers=4, engine="inside", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "seconds"), [("20ms", 0.02), ("1.5s", 1.5), ("300us", 3e-4), ("0s", 0.0)])
def test_a_unit_may_be_given(text: str, seconds: float) -> None:
    assert parse_delays(f"lognormal:0.5:{text}", None, 0).unit_s == pytest.approx(seconds)


def test_outside_a_pretended_world_workers_sleep_if_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    delays = parse_delays("lognormal:0:7ms", "1:3x", 0)
    delays.hold_up(0, 5, asked=True)
    delays.hold_up(1, 5, asked=True)
    parse_delays("lognormal:0", None, 0).hold_up(0, 5, asked=True)
    delays.hold_up(0, 5, asked=False)
    assert slept == pytest.approx([0.007, 0.021, 0.02])


def test_a_straggler_must_be_one_of_the_workers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are 4 workers"):
        run(config(tmp_path, "sync-sgd", straggler="4:5x"))


def test_a_unit_scales_pretended_time(tmp_path: Path) -> None:
    took = run(config(tmp_path, "hardsync", delays="lognormal:0:100ms"))["pretended_seconds"]
    assert took == pytest.approx(2.0, rel=0.01)


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
    counts = result["staleness"]["histogram"]
    assert sum(counts.values()) == 80
    assert result["staleness"]["max"] == max(map(int, counts))
    mean = sum(int(age) * count for age, count in counts.items()) / 80
    assert result["staleness"]["mean"] == pytest.approx(mean)
    assert result["staleness"]["dropped"] == 0
