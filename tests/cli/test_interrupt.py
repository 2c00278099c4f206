"""Ctrl-C and worse, as a person does it to the real command: nothing is lost, nobody stays behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.here import namespaces_of, needs_lab, runs, soon
from tightwire.lab import clean_leftovers

pytestmark = pytest.mark.processes
LONG = ["train", "--epochs", "300", "--save-every", "20"]


def begin(folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start a long run in a process group of its own."""
    command = [Path(sys.executable).parent / "tightwire", *LONG, "--out", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def steps(folder: Path) -> int:
    path = folder / "events" / "rank-0.jsonl"
    return path.read_text().count('"Stepped"') if path.exists() else 0


def workers(folder: Path) -> list[int]:
    return [int(path.read_text().split()[0]) for path in (folder / "pids").glob("rank-*")]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    assert soon(condition, within_s=40), what


def test_ctrl_c_leaves_a_checkpoint_and_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = begin(folder)
    wait_for(lambda: steps(folder) > 40, "no steps")
    pids = workers(folder)
    assert len(pids) == 4
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "go on with: tightwire resume" in said and "Traceback" not in said
    wait_for(lambda: not any(runs(pid) for pid in pids), "a worker stayed behind")
    taken = steps(folder)
    done = subprocess.run(
        [Path(sys.executable).parent / "tightwire", "resume", str(folder), "--epochs", "8", "--json", "-"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["epochs"] == 8.0
    assert steps(folder) == max(taken, json.loads(done.stdout)["steps"]), "no step was taken twice"


def test_a_killed_parent_takes_its_workers_along(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = begin(folder)
    wait_for(lambda: steps(folder) > 5, "no steps")
    pids = workers(folder)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(runs(pid) for pid in pids), "a worker stayed behind")


@pytest.mark.parametrize("_", [pytest.param(None, marks=needs_lab)])
def test_a_killed_parent_in_the_lab_leaves_nothing_for_long(tmp_path: Path, _: None) -> None:
    folder = tmp_path / "run"
    process = begin(folder, "--lab", "1gbit")
    wait_for(lambda: steps(folder) > 5, "no steps")
    pids, names = workers(folder), namespaces_of(process.pid)
    assert len(names) >= 4
    process.kill()
    process.communicate()
    wait_for(lambda: not any(runs(pid) for pid in pids), "a worker stayed behind")
    clean_leftovers()  # what every lab does first
    assert not set(names) & set(namespaces_of(process.pid))
