"""Plans of real networks: what they are timed with, what messages cost, and what `--recipe auto` takes."""

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.plan.stated import link, profile
from tightwire.cli.app import main
from tightwire.engines.auto import choose, cluster_of
from tightwire.engines.calibration import overheads_here
from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.example import find_example, loss
from tightwire.engines.planning import PlanConfig, command_of, make_plan, shared
from tightwire.plan.cluster import flat, parse_link
from tightwire.plan.errors import PlanError
from tightwire.plan.profile import Overheads


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages cost nothing."""
    monkeypatch.setattr("tightwire.engines.planning.overheads_here", Overheads)


def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """A module of somebody's own."""
    (tmp_path / "own_example.py").write_text("import torch\nfrom torch import nn\n" + text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_example", raising=False)


def example(name: str, data: str | None = None, batch: int = 4) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    found = find_example(name, batch=batch, data=data, data_folder=None, device="cpu")
    return found.model, found.x, found.y


def test_networks_of_ours_get_inputs_of_their_papers() -> None:
    assert example("lenet-5")[1].shape == (4, 1, 28, 28)
    model, x, y = example("mlp")
    assert loss(model(x), y).item() == pytest.approx(2.3, abs=0.5)  # ten classes


def test_data_gives_its_own_samples_and_their_number() -> None:
    found = find_example("mlp", batch=4, data="digits", data_folder=None, device="cpu")
    assert found.samples == 1438 and found.x.shape == (4, 64)


def test_an_example_of_ones_own_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own(
        monkeypatch, tmp_path,
        "def net(inputs, classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(6, classes))\n"
        "def example(batch):\n    return torch.zeros(batch, 2, 3), torch.arange(batch) % 3\n",
    )  # fmt: skip
    model, x, y = example("own_example:net")
    assert x.shape == (4, 2, 3) and model(x).shape == (4, 3)
    assert loss(model(x), y).item() == pytest.approx(1.1, abs=0.6)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(256, classes))", (4, 64)),
        ("nn.Sequential(nn.Conv2d(5, 2, 3), nn.BatchNorm2d(2), nn.AdaptiveAvgPool2d(1))", (4, 5, 32, 32)),
        ("nn.Sequential(nn.Linear(11, 3))", (4, 11)),
        ("nn.GRU(9, 4, batch_first=True)", (4, 3, 9)),
    ],
)
def test_inputs_are_found_from_the_first_layer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, shape: tuple[int, ...]
) -> None:
    if "GRU" in body:  # nothing says what it takes: the error asks for an example
        own(monkeypatch, tmp_path, f"def net(inputs, classes):\n    return {body}\n")
        with pytest.raises(PlanError, match=r"write a function example\(\) in own_example"):
            example("own_example:net")
        return
    own(monkeypatch, tmp_path, f"def net(inputs, classes):\n    return {body}\n")
    assert example("own_example:net")[1].shape == shape


@pytest.mark.processes
def test_messages_are_measured_between_two_processes() -> None:
    found = overheads_here()
    assert 0 < found.message_s < 0.1 and 0 < found.native_s < 0.1
    assert 0 <= found.byte_s < 1e-6 and 0 < found.add_byte_s < 1e-7


def test_shared_cores_slow_workers_down_unless_that_was_measured() -> None:
    cluster = flat(parse_link("1gbit"), cores=2, sharing=8)
    assert shared(profile(), cluster).slowed(8) == 4.0
    assert shared(profile().but(slowdown={1: 1.0, 8: 5.0}), cluster).slowed(8) == 5.0
    assert shared(profile(), link("1gbit")).slowed(8) == 1.0


@pytest.mark.usefixtures("free")
def test_the_command_runs_what_is_advised(tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    asked = PlanConfig("mlp", workers=(2,), recipes=("sync-sgd", "powersgd"), save_profile=saved, link="1mbit")
    made = make_plan(asked)
    assert command_of(asked, made) == (
        "tightwire train --recipe powersgd:rank=2 --model mlp --batch 16 --workers 2 --lab 1mbit"
    )
    again = make_plan(PlanConfig("", workers=(2,), recipes=("sync-sgd", "powersgd"), profile=saved, link="1mbit"))
    assert [str(row.candidate) for row in again.chosen.rows] == [str(row.candidate) for row in made.chosen.rows]


@pytest.mark.usefixtures("free")
def test_auto_trains_with_what_is_advised_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(
        sys, "argv",
        ["tightwire", "train", "--recipe", "auto", "--workers", "2", "--steps", "3", "--engine", "inside", "--out",
         str(tmp_path / "run"), "--json", "-"],
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    heard = capsys.readouterr()
    result = json.loads(heard.out)
    assert result["plan"]["chosen"].startswith(result["recipe"]) and result["steps"] == 3
    assert f"auto: {result['plan']['chosen']}. On 2 workers use" in " ".join(heard.err.split())
    assert json.loads((tmp_path / "run" / "result.json").read_text())["plan"]["ranking"]
    config = RunConfig.load(tmp_path / "run")
    assert config.recipe == result["recipe"] and config.plan == result["plan"]


def test_auto_chooses_the_codec_too() -> None:
    with pytest.raises(ConfigError, match="leave out --codec"):
        choose(RunConfig(recipe="auto", codec="half"))


def test_the_cluster_of_a_run_is_this_machine_on_its_wire() -> None:
    found = cluster_of(RunConfig(workers=3, link="100mbit,1ms"))
    assert found.sharing == 3 and found.outermost == parse_link("100mbit,1ms")
    assert cluster_of(RunConfig(workers=3)).outermost.bytes_per_s == float("inf")
