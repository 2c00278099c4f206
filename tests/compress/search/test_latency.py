"""The table of timed layers: measured, kept, reused, never falling; and the aim at whole networks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.compress.search.toys import depthwise
from tightwire.compress.errors import CompressError
from tightwire.compress.search import latency
from tightwire.compress.search.latency import Table, Timed, aim, key_of, load_table, time_all
from tightwire.compress.search.layers import read_layers
from tightwire.compress.search.timing import in_turns_ns, time_ns


def test_a_table_is_measured_once_kept_and_never_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    def pretend(module: nn.Module, x: torch.Tensor) -> float:
        times.append(1000.0 * (7 * len(times) % 11 + 1))
        module(x)  # shapes that do not fit would raise
        return times[-1]

    monkeypatch.setattr(latency, "time_ns", pretend)
    model = depthwise()
    layers = read_layers(model, torch.randn(1, 3, 16, 16))
    table = Table("here", 1)
    time_all(layers, table, least=0.2)
    count = len(times)
    assert len(table.rows) == 4 and count > 40
    table.save(tmp_path / "table.json")
    again = load_table(tmp_path / "table.json", device="here", batch=1)
    assert again.rows == table.rows
    time_all(layers, again, least=0.2)
    assert len(times) == count  # nothing is timed again
    grid_in, grid_out = np.meshgrid(np.arange(1.0, 17.0), np.arange(1.0, 25.0), indexing="ij")
    cost = again.curve(layers["6"])(grid_in, grid_out)
    assert (np.diff(cost, axis=0) >= 0).all() and (np.diff(cost, axis=1) >= 0).all() and (cost == cost.round()).all()


def test_between_grid_points_lie_lines() -> None:
    layer = read_layers(nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2)), torch.randn(1, 8))["0"]
    table = Table("here", 1, {key_of(layer): Timed((4, 8), (2, 4), ((100.0, 200.0), (300.0, 600.0)))})
    curve = table.curve(layer)
    at = np.array([4.0, 6.0, 8.0, 2.0]), np.array([2.0, 3.0, 4.0, 4.0])
    assert curve(*at).tolist() == [100.0, 300.0, 600.0, 200.0]


def test_a_table_of_another_device_or_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    Table("there", 8).save(path)
    with pytest.raises(CompressError, match="timed on there with batches of 8"):
        load_table(path, device="here", batch=8)
    path.write_text(json.dumps({"rows": 3}))
    with pytest.raises(CompressError, match="is no table of timed layers"):
        load_table(path, device="here", batch=8)
    assert load_table(tmp_path / "new.json", device="here", batch=1).rows == {}


def test_more_work_takes_longer() -> None:
    small, large = nn.Linear(16, 16), nn.Linear(1500, 1500)
    x = torch.randn(8, 16), torch.randn(8, 1500)
    assert 0 < time_ns(small, x[0], round_s=0.001) < time_ns(large, x[1], round_s=0.001) < 1e9


def test_what_is_compared_is_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, order = nn.Linear(2, 2), nn.Linear(2, 2), list[nn.Module]()
    slow = iter([1.0, 1.0, *(2.0, 5.0, 2.0, 4.0, 9.0, 6.0), *(3.0, 4.5, 1.5, 4.4, 3.5, 4.6)])

    def pretend(module: nn.Module, x: torch.Tensor, calls: int) -> float:
        order.append(module)
        return next(slow)

    monkeypatch.setattr("tightwire.compress.search.timing._seconds", pretend)
    assert in_turns_ns([one, other], torch.zeros(1, 2), rounds=3, tries=2) == [2e9, 4.5e9]
    assert order == [one, other] * 7


def test_the_aim_turns_time_into_sums_of_layers() -> None:
    assert aim(25.0, [10, 20, 30], [10, 20, 60]) == pytest.approx(20 + 10 / 8)
    assert aim(5.0, [10, 20], [10, 40]) == 5.0 and aim(99.0, [10, 20], [10, 40]) == 20.0
