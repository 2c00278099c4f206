"""`benchmarks.amc` puts together whatever rows there are: all of them, or those of a call that was cut."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.amc import STEPS, main, plan
from benchmarks.amc_summary import summary
from benchmarks.figures import amc_pattern
from benchmarks.sections_search import amc


def _method(accuracy: float) -> dict[str, Any]:
    return {"test_accuracy": accuracy, "held_accuracy": accuracy, "seconds": 3.0, "evaluations": 400}


def _tuned(method: str, seed: int, accuracy: float, **more: Any) -> dict[str, Any]:
    return {"method": method, "seed": seed, "test_accuracy": accuracy, "reference_accuracy": 0.93, "epochs": 4.0} | more


def _pattern(seed: int, shift: float) -> dict[str, Any]:
    layers = [{"layer": f"l{n}", "k": 3 if n in (0, 2) else 1, "ratio": 0.1 * n + shift} for n in range(1, 5)]
    density = {"1x1": 0.3 + shift, "3x3": 0.2 + shift}
    one = {"layers": layers, "test_accuracy": 0.5, "mean_density": density, "weighted_density": density}
    return {"seed": seed, "methods": {"amc": one, "uniform": one}}


ROWS: dict[str, Any] = {
    "search-0": {"seed": 0, "reference_accuracy": 0.93, "seconds": 60.0,
                 "methods": {"amc": _method(0.8), "uniform": _method(0.75)}},
    "tune.amc-0": _tuned("amc", 0, 0.931, before=0.8, parameters=1000),
    "tune.amc-1": _tuned("amc", 1, 0.929, before=0.8, parameters=1000),
    "tune.uniform-0": _tuned("uniform", 0, 0.925, before=0.75, parameters=1100),
    "densities.20-0": {"seed": 0, "density": 0.2, "policies": {n: _method(0.61) for n in ("amc", "threshold")}},
    "fine.amc.20-0": _tuned("amc", 0, 0.932, density=0.2, fewer_weights=5.1),
    "fine.uniform.20-0": _tuned("uniform", 0, 0.927, density=0.2, fewer_weights=5.1),
    "fine.amc.10-0": _tuned("amc", 0, 0.92, density=0.1, fewer_weights=10.2),
    "whole-0": _tuned("whole", 0, 0.934), "whole-1": _tuned("whole", 1, 0.936),
    "pattern-0": _pattern(0, 0.0), "pattern-1": _pattern(1, 0.1),
    "paper-0": {"seed": 0, "methods": {"amc-paper": _method(0.7)}},
}  # fmt: skip


def test_pairs_are_compared_and_single_rows_are_not() -> None:
    found = summary(ROWS)
    assert found["before_amc_over_uniform"] == [pytest.approx(0.05)]
    assert found["after"]["seeds"] == [0] and found["after"]["amc_over_uniform"] == [pytest.approx(0.006)]
    assert found["after"]["mean"]["amc"] == pytest.approx(0.93)  # of both seeds
    assert found["fine"]["0.2"]["lost"] == {"amc": [pytest.approx(-0.002)], "uniform": [pytest.approx(0.003)]}
    assert found["fine"]["0.1"]["seeds"] == [] and set(found["fine"]["0.1"]["mean"]) == {"amc"}
    assert found["pattern"]["amc"]["mean_density"] == {"1x1": pytest.approx(0.35), "3x3": pytest.approx(0.25)}


@pytest.mark.parametrize("start", ["", "search", "tune.amc", "fine.", "whole", "pattern", "paper"])
def test_the_page_says_what_there_is(start: str) -> None:
    rows = {name: row for name, row in ROWS.items() if name.startswith(start)}
    text = amc({"rows": rows, "summary": summary(rows), "machine": {"gpu": None}})
    assert ("**93.10%**" in text) == (start in ("", "tune.amc"))
    said = "pruned more than 1×1 by amc in 2 of 2 searches as layers and in 2 as weights"
    assert (said in text) == (start in ("", "pattern"))
    assert text.startswith("## AMC: which layers are pruned most in `resnet56`") == (start == "pattern")
    assert ("nothing pruned: 93.40%, 93.60%." in text) == (start in ("", "whole"))
    assert ("| threshold | 0 | 20% | 61.00% | 61.00% | 400 | 3 s |" in text) == (start == "")
    if "pattern-0" in rows:
        record = {"rows": rows, "summary": summary(rows), "network": "resnet20", "side": 16}
        drawn = amc_pattern(record).svg()
        assert "resnet20, CIFAR-10 in 16 × 16 pixels; a fifth" in drawn
        assert drawn.count("<title>l") == 4 and "mean and range of 2 searches" in drawn


def test_what_is_most_wanted_comes_first() -> None:
    tasks = list(plan(list(STEPS), [0, 1], [0]))
    assert [name for name, needs in plan(list(STEPS), [0], [0]).items() if not needs] == ["reference-0"]
    assert tasks[0] == "reference-0" and tasks.index("tune.uniform-0") < tasks.index("tune.amc-1")
    assert tasks.index("search-1") < tasks.index("tune.amc-0") < tasks.index("bottleneck-0") < tasks.index("paper-0")


def test_rows_of_another_machine_stay_those_of_that_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "search-0.json").write_text(json.dumps(ROWS["search-0"]))
    made = {"date": "2001-02-03", "machine": {"cpu": "abacus", "cores": 10, "gpu": None}, "versions": {"torch": "0.1"}}
    (tmp_path / "origin.json").write_text(json.dumps(made))
    monkeypatch.setattr(sys, "argv", ["amc.py", "--data", "DIR", "--work", str(tmp_path), "--limit", "1", "--collect"])
    main()
    record = json.loads((tmp_path / "amc.json").read_text())
    assert made.items() <= record.items() and record["rows"] == {"search-0": ROWS["search-0"]}
