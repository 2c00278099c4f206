"""Table 1 in small: every system gives a row, and rows are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tightwire.engines.table1 import Size
from tightwire.engines.table1_deal import TRIALS
from tightwire.engines.table1_rows import Table, wanted

TINY = Size(width=16, outputs=53, batch=32, steps=2, rounds=1)


def test_the_ceiling_stands_before_what_is_compared_with_it() -> None:
    rows = wanted(("serial", "ceiling", "asgd", "layer-wise"), (1, 2, 4))
    assert rows[0] == ("serial", 1)
    assert rows[1:4] == [("ceiling", 2), ("layer-wise", 2), ("asgd", 2)]


@pytest.mark.processes
def test_every_system_gives_a_row_once(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "table1.json"
    table = Table(path, TINY, said.append)
    for system, workers in wanted(("serial", "ceiling", "layer-wise", "synchronous"), (1, 2)):
        table.measure(system, workers)
    rows = {(row["system"], row["workers"]): row for row in json.loads(path.read_text())["rows"]}
    assert set(rows) == {("serial", 1), *((s, 2) for s in ("ceiling", "layer-wise", "synchronous"))}
    assert rows["serial", 1]["S"] == 1.0
    split = rows["layer-wise", 2]
    assert split["of_ceiling"] == pytest.approx(split["S"] / rows["ceiling", 2]["S"])
    assert sum(split["plan"]["columns"]) in (0, TINY.outputs)
    assert len(split["trials"]) in (0, len(TRIALS)) and all(len(t["busy_s"]) == 2 for t in split["trials"])
    activations = 4 * TINY.batch * TINY.width
    assert max(split["tx_bytes_a_minibatch"]) < 4 * activations < min(rows["synchronous", 2]["tx_bytes_a_minibatch"])

    again = Table(path, TINY, said.append)
    before = len(said)
    again.measure("layer-wise", 2)
    assert len(said) == before, "a row that is there is not measured again"
    assert Table(path, Size(width=8), said.append).row("serial", 1) is None, "figures of another size do not count"
