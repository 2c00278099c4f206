"""Split models in real processes: the same as in one process, and after a stage was killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tightwire.algebra.recipe import leaves
from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.recipe import make_recipe
from tightwire.engines.start import run

pytestmark = pytest.mark.processes
SPLITS: dict[str, tuple[str, dict[str, Any], int]] = {
    "wide": ("layerwise", {"stages": 3, "wide": 3}, 3),
    "flush": ("1f1b", {"stages": 2, "microbatches": 4}, 2),
}


def config(folder: Path, name: str, **values: Any) -> RunConfig:
    recipe, params, workers = SPLITS[name]
    usual = {"epochs": 1.0, "save_every": 10, "timeout_s": 10.0, "restarts": 2}
    return RunConfig(
        **{**usual, "recipe": recipe, "params": params, "workers": workers, "folder": str(folder), **values}
    )


def same(one: Path, two: Path) -> bool:
    a, b = (load_file(folder / "model.safetensors") for folder in (one, two))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", SPLITS)
def test_processes_compute_what_one_process_does(tmp_path: Path, name: str) -> None:
    apart = run(config(tmp_path / "processes", name))
    inside = run(config(tmp_path / "inside", name, engine="inside"))
    assert same(tmp_path / "processes", tmp_path / "inside")
    assert apart["wire"]["tx_bytes"] == inside["wire"]["tx_bytes"]


class Around(nn.Module):
    """A way around some layers: no nn.Sequential."""

    def __init__(self, inputs: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(inputs[0], 16), nn.Linear(16, 16), nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        out: Tensor = self.last(h + self.inner(h).relu())
        return out


def test_a_model_that_is_no_chain_is_traced_and_keeps_its_names(tmp_path: Path) -> None:
    model = "tests.engines.test_split_runs:Around"
    result = run(config(tmp_path, "flush", engine="inside", model=model, steps=4, epochs=None))
    saved = load_file(tmp_path / "model.safetensors")
    assert set(saved) == set(Around((64,), 10).state_dict()) and result["wire"]["tx_bytes"] > 0


def kill_once(folder: Path, rank: int, steps: int) -> threading.Thread:
    """Kill a worker that has taken some steps, -9."""

    def hunt() -> None:
        path, deadline = folder / "events" / f"rank-{rank}.jsonl", time.monotonic() + 30
        while time.monotonic() < deadline:
            if path.exists() and path.read_text().count('"Stepped"') >= steps:
                os.kill(int((folder / "pids" / f"rank-{rank}").read_text().split()[0]), signal.SIGKILL)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=hunt)
    thread.start()
    return thread


def test_a_killed_stage_changes_nothing(tmp_path: Path) -> None:
    """All stages go on from one checkpoint, in which nothing was in flight."""
    run(config(tmp_path / "whole", "wide", engine="inside"))
    hunter = kill_once(tmp_path / "killed", rank=1, steps=15)
    result = run(config(tmp_path / "killed", "wide"))
    hunter.join()
    assert result["faults"]["restarts"] == 1
    assert same(tmp_path / "whole", tmp_path / "killed")
    whole = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert result["wire"]["tx_bytes"] == whole["wire"]["tx_bytes"]


@pytest.mark.parametrize(
    ("wire", "codec"),
    [({}, "Dense"), ({"link": "100mbit"}, "Half"), ({"link": "10gbit"}, "Dense"), ({"lab": "20mbit"}, "Half")],
)
def test_stages_send_halves_over_a_slow_link(tmp_path: Path, wire: dict[str, str], codec: str) -> None:
    (leaf,) = leaves(make_recipe(config(tmp_path, "wide", **wire)))
    assert type(leaf.recipe.up[1]).__name__ == codec
    (leaf,) = leaves(make_recipe(config(tmp_path, "wide", codec="topk:0.5", **wire)))
    assert type(leaf.recipe.up[1]).__name__ == "TopK", "a codec that is named is taken"


def test_a_wrong_number_of_workers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has 3 stages for 3 workers and 4 workers: use --workers 3"):
        run(config(tmp_path, "wide", workers=4))
