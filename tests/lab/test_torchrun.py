"""Several nodes by plain torchrun: the same command a person types on every machine, here on every host of a lab."""

import json
import sys
from pathlib import Path

import pytest

from tests.lab.here import needs_lab
from tightwire.lab import Lab, run_everywhere

pytestmark = [*needs_lab, pytest.mark.processes]
TORCHRUN = (
    "torchrun --nnodes 2 --nproc-per-node 2 --node-rank $RANK --master-addr $MASTER_ADDR --master-port $MASTER_PORT "
    "-m tightwire train --recipe dgc --epochs 2 --out {folder} --json {folder}-$RANK.json"
)


def test_two_nodes_of_two_workers(tmp_path: Path) -> None:
    path = f"PATH={Path(sys.executable).parent}:$PATH "
    with Lab(2, "1gbit") as lab:
        assert run_everywhere(lab, ["bash", "-c", path + TORCHRUN.format(folder=tmp_path / "run")]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["workers"] == 4 and result["recipe"] == "dgc"
    assert result["wire"]["tx_bytes"] > 0
