"""Runs as `tightwire train` makes them: the same result however workers are started, and after faults."""

import json
import math
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.script import LOOK_EVERY
from tightwire.engines.start import RunFailed, RunStopped, fresh_folder, run
from tightwire.lab import why_not
from tightwire.telemetry.follow import Follower

pytestmark = pytest.mark.processes
KEYS = {
    "recipe", "params", "workers", "model", "data", "shards", "seed", "steps", "samples", "epochs", "seconds",
    "samples_per_second", "test_accuracy", "wire", "staleness", "faults",
}  # fmt: skip
in_lab = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def config(folder: Path, **values: Any) -> RunConfig:
    return RunConfig(**{"epochs": 3.0, "save_every": 20, "folder": str(folder), "timeout_s": 20.0, **values})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: Path, two: Path) -> bool:
    a, b = weights(one), weights(two)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_leaves_its_result(tmp_path: Path) -> None:
    result = run(config(tmp_path, recipe="local-sgd", params={"tau": 5}))
    assert set(result) == KEYS
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert result["params"] == {"tau": 5} and result["workers"] == 4 and result["steps"] == 69
    assert set(result["wire"]) == {
        "payload_ratio", "tx_bytes", "rx_bytes", "measured_tx_bytes", "measured_rx_bytes", "link",
    }  # fmt: skip
    assert result["wire"]["payload_ratio"] == pytest.approx(5.0, rel=0.1)
    assert result["wire"]["measured_tx_bytes"] is None
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2, "old checkpoints are removed"
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.step == 69 and follower.loss is not None and follower.slowest() is not None
    follower.close()


def test_inside_one_process_a_run_is_the_same(tmp_path: Path) -> None:
    from tightwire.engines.inside import run_inside  # noqa: PLC0415

    run(config(tmp_path / "processes", recipe="dgc"))
    inside = config(tmp_path / "inside", recipe="dgc")
    inside.save()
    run_inside(inside, resume=False)
    assert same(tmp_path / "processes", tmp_path / "inside")


@pytest.mark.lab
@in_lab
def test_in_the_lab_a_run_is_the_same_and_the_kernel_agrees(tmp_path: Path) -> None:
    run(config(tmp_path / "processes"))
    result = run(config(tmp_path / "lab", lab="1gbit"))
    assert same(tmp_path / "processes", tmp_path / "lab")
    wire = result["wire"]
    assert 0.97 < wire["measured_tx_bytes"] / wire["tx_bytes"] < 1.08, "tiny messages carry much framing"
    assert wire["link"] == "lab, 1gbit"


def victim_after(folder: Path, rank: int, steps: int, number: int) -> threading.Thread:
    """Send a signal to a worker once it has taken some steps."""

    def hunt() -> None:
        path = folder / "events" / f"rank-{rank}.jsonl"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if path.exists() and path.read_text().count('"Stepped"') >= steps:
                pid = int((folder / "pids" / f"rank-{rank}").read_text().split()[0])
                os.kill(pid, number)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=hunt)
    thread.start()
    return thread


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kill_seed" in metafunc.fixturenames:
        metafunc.parametrize("kill_seed", range(20 if metafunc.config.getoption("--slow") else 3))


def test_a_killed_worker_changes_nothing(tmp_path: Path, kill_seed: int) -> None:
    dice = random.Random(kill_seed)
    recipe = dice.choice(["sync-sgd", "dgc", "local-sgd"])
    run(config(tmp_path / "whole", recipe=recipe))
    hunter = victim_after(tmp_path / "killed", dice.randrange(4), dice.randrange(25, 60), signal.SIGKILL)
    result = run(config(tmp_path / "killed", recipe=recipe))
    hunter.join()
    assert result["faults"]["restarts"] == 1
    assert same(tmp_path / "whole", tmp_path / "killed")
    whole = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert result["test_accuracy"] == whole["test_accuracy"]
    assert result["wire"]["tx_bytes"] == whole["wire"]["tx_bytes"]


def test_workers_that_die_again_and_again_are_given_up(tmp_path: Path) -> None:
    hunter = victim_after(tmp_path, 1, 25, signal.SIGKILL)
    with pytest.raises(RunFailed, match=r"lost its connection|without a word|no sign of life"):
        run(config(tmp_path, restarts=0))
    hunter.join()


def test_a_stuck_worker_is_replaced(tmp_path: Path) -> None:
    hunter = victim_after(tmp_path, 2, 25, signal.SIGSTOP)
    result = run(config(tmp_path, timeout_s=2.0))
    hunter.join()
    assert result["faults"]["restarts"] == 1


def test_a_wish_to_stop_saves_and_stops_and_the_run_goes_on(tmp_path: Path) -> None:
    run(config(tmp_path / "whole"))

    def wish() -> None:
        path = tmp_path / "stopped" / "events" / "rank-0.jsonl"
        while not (path.exists() and path.read_text().count('"Stepped"') > 15):
            time.sleep(0.01)
        (tmp_path / "stopped" / "stop").touch()

    wisher = threading.Thread(target=wish)
    wisher.start()
    stopped = config(tmp_path / "stopped")
    with pytest.raises(RunStopped, match="tightwire resume"):
        run(stopped)
    wisher.join()
    run(stopped, resume=True)
    assert same(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize("recipe", ["sync-sgd", "one-shot-average", "gpipe"])
def test_a_run_that_is_lost_ends_at_the_next_look_and_keeps_its_last_good_checkpoint(
    tmp_path: Path, recipe: str
) -> None:
    params = {"stages": 2} if recipe == "gpipe" else {}
    asked = config(tmp_path, recipe=recipe, params=params, workers=2, lr=1e30, save_every=1000, engine="inside")
    result = run(asked)
    assert result["diverged"] and result["steps"] == LOOK_EVERY, "of 69"
    saved = sorted((tmp_path / "checkpoints").rglob("*.safetensors"))
    assert saved and all(bool(t.isfinite().all()) for path in saved for t in load_file(path).values())


class NeverFirst(nn.Module):
    """Class 0 is impossible: the loss of a sample of it is infinite, all gradients are numbers."""

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits + torch.tensor([-torch.inf] + 9 * [0.0])


def without_first(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(inputs), classes), NeverFirst())


def test_an_infinite_loss_is_no_reason_to_end_where_weights_are_finite(tmp_path: Path) -> None:
    result = run(config(tmp_path, workers=1, model=f"{__name__}:without_first", lr=0.01))
    assert result["steps"] > LOOK_EVERY and "diverged" not in result


def test_a_run_goes_on_with_fewer_workers(tmp_path: Path) -> None:
    run(config(tmp_path, recipe="dgc", epochs=2.0))
    result = run(config(tmp_path, recipe="dgc", workers=2, epochs=4.0), resume=True)
    assert result["workers"] == 2
    changes = [line for line in (tmp_path / "events/rank-0.jsonl").read_text().splitlines() if '"Restored"' in line]
    assert "4 workers are now 2" in changes[-1]


def test_user_errors_come_back_as_sentences(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"momentum of 0\.9 would repeat"):
        run(config(tmp_path / "a", recipe="dgc", momentum=0.9))
    with pytest.raises(ConfigError, match="--workers 2"):
        run(config(tmp_path / "b", recipe="layerwise"))


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    run(config(tmp_path, epochs=1.0))
    with pytest.raises(RunFailed, match="another model"):
        run(config(tmp_path, epochs=1.0, model="lenet-300-100"), resume=True)


def test_an_existing_run_is_not_lost_by_accident(tmp_path: Path) -> None:
    first = config(tmp_path, epochs=1.0)
    run(first)
    with pytest.raises(ConfigError, match="--overwrite"):
        fresh_folder(first, overwrite=False, named=True)
    assert (tmp_path / "result.json").exists()
    fresh_folder(first, overwrite=True, named=True)
    assert not (tmp_path / "result.json").exists() and not (tmp_path / "events").exists()


def test_a_full_disk_is_reported_before_training(tmp_path: Path) -> None:
    blocked = tmp_path / "run"
    blocked.mkdir()
    (blocked / "checkpoints").write_text("a file where a folder should be")
    with pytest.raises(RunFailed, match="no checkpoint was written"):
        run(config(blocked))
    assert '"Stepped"' not in (blocked / "events" / "rank-0.jsonl").read_text()
