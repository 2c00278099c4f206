"""Runs of a benchmark: which of them are done, and what is drawn of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks import asynchrony, figures, runs
from benchmarks.chart import Chart, Series


def test_a_run_is_done_only_if_it_was_run_as_it_is_asked_for(tmp_path: Path) -> None:
    asked = runs.arguments(None, epochs=1.0).parse_args([])
    config = runs.Asked("easgd:tau=10", 0, (("lr", 0.3),)).config(asked, tmp_path)
    assert runs.result(config) is None
    config.save()
    assert runs.result(config) is None
    (config.path / "result.json").write_text('{"test_accuracy": 0.9}')
    assert runs.result(config) == {"test_accuracy": 0.9}
    assert runs.result(config.but(data_folder="elsewhere")) is not None
    assert runs.result(config.but(epochs=2.0)) is None
    assert config.lr == 0.3 and config.params == {"tau": 10}


def test_settings_of_a_run_come_before_those_of_all_and_have_a_folder_of_their_own(tmp_path: Path) -> None:
    asked = runs.arguments(None, epochs=3.0).parse_args(["--batch", "8"])
    configs = [run.config(asked, tmp_path) for run in asynchrony.softened(1.0).values()]
    assert {(config.epochs, config.batch) for config in configs} == {(1.0, 8)}
    assert len({config.folder for config in configs}) == len(configs)


def test_the_same_rate_for_fresh_gradients_on_both_sides(tmp_path: Path) -> None:
    for (n, rate, rule), asked in asynchrony.softened(1.0).items():
        given = dict(asked.settings)["lr"]
        assert given == (n * rate if rule == "constant" else rate), "softsync divides by n itself"


def test_rows_compare_with_the_same_seed() -> None:
    wire = {"tx_bytes": 100.0, "rx_bytes": 100.0}
    done = {}
    for (name, seed), asked in asynchrony.compared((0, 1)).items():
        points, fewer = {"sync-sgd": (0.0, 1), "easgd:tau=10:beta=1.8": (-0.01, 10), "agn:tau=10": (0.01, 20)}[name]
        done[asked] = {"test_accuracy": 0.9 + 0.01 * seed + points, "steps": 10, "cpu_seconds": 1.0,
                       "wire": {key: count / fewer for key, count in wire.items()}}  # fmt: skip
    rows = {row["recipe"]: row for row in asynchrony.compare_rows(done, (0, 1))}
    assert round(rows["easgd:tau=10:beta=1.8"]["points_above_sync_sgd"], 6) == -1.0
    assert round(rows["agn:tau=10"]["points_above_sync_sgd"], 6) == 1.0
    assert round(rows["agn:tau=10"]["fewer_bytes"], 6) == 20
    done = {asked: run if "easgd" not in asked.name else {"error": "not finite"} for asked, run in done.items()}
    assert [row["recipe"] for row in asynchrony.compare_rows(done, (0, 1))] == ["sync-sgd", "agn:tau=10"]


def test_a_higher_value_is_drawn_higher() -> None:
    line = Series("one", ((1.0, 50.0), (10.0, 80.0), (100.0, 20.0)), "#000000")
    drawn = Chart("title", "where", "x", "y", (line,)).svg()
    places = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)][1:]
    (x1, y1), (x2, y2), (x3, y3) = places
    assert x2 - x1 == x3 - x2, "equal factors are equal distances"
    assert y2 < y1 < y3


@pytest.mark.parametrize(
    ("name", "draw"),
    [("asynchrony", figures.downpour_tau), ("asynchrony", figures.softsync_rate), ("shrink", figures.bits_resnet20)],
)
def test_what_was_measured_is_what_is_drawn(name: str, draw: Callable[[dict[str, Any]], Chart]) -> None:
    record = json.loads((figures.RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    there = (figures.IMAGES / f"{draw.__name__}.svg").read_text(encoding="utf-8")
    assert there == draw(record).svg(), "the figures are stale: python -m benchmarks.figures"
