"""`tightwire plan`: a sentence for what cannot be, advice for what can, one JSON object where it was asked for."""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.plan.stated import profile
from tightwire.cli.app import main
from tightwire.engines.screenshot import browser, size_of
from tightwire.plan.profile import Overheads


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command in this process; its exit status."""
    monkeypatch.setattr(sys, "argv", ["tightwire", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "profile.json"
    profile(8).save(path)
    return str(path)


FEW = ("--recipes", "sync-sgd,dgc,local-sgd,asgd")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--workers", "0"), "workers=0: a plan needs at least 1; give --workers 1,2,4"),
        (("--workers", "two"), "workers=two: give whole numbers"),
        (("--link=-1gbit",), "is negative"),
        (("--link", "0gbit"), "a link of 0 bit/s"),
        (("--batch", "0"), "batch=0"),
        (("--samples", "0"), "samples=0"),
        (("--recipes", "dcg"), "did you mean dgc?"),
        (("--recipes", "dgc:density=1"), "a plan chooses the parameters itself"),
        (("--cluster", "missing.toml"), "missing.toml cannot be read"),
        (("--cluster", "x.toml", "--link", "1gbit"), "the file has links of its own"),
        (("--profile", "missing.json"), "missing.json cannot be read"),
        (("--model", "no_such_module_here:net"), "no_such_module_here cannot be imported"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    given = arguments if "--model" in arguments or "--profile" in arguments else ("--model", "mlp", *arguments)
    assert call(monkeypatch, "plan", *given) == 2
    err = capsys.readouterr().err
    assert says in err and err.startswith("tightwire: ") and err.count("\n") == 1


def test_it_needs_a_network(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "plan") == 2
    assert "give --model" in capsys.readouterr().err


def test_a_layer_that_no_device_holds_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: str, tmp_path: Path
) -> None:
    small = tmp_path / "small.toml"
    small.write_text('memory_bytes = 100000\n[[tiers]]\nname = "all"\nsize = 0\nlink = "1gbit"\n')
    assert call(monkeypatch, "plan", "--profile", saved, "--cluster", str(small), *FEW) == 2
    err = capsys.readouterr().err
    assert "in.weight needs" in err and err.count("\n") == 1


def test_a_profile_is_planned_with_anywhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: str
) -> None:
    common = ("plan", "--profile", saved, *FEW, "--workers", "1,4", "--json", "-")
    slow, fast = (_json(monkeypatch, capsys, *common, "--link", rate) for rate in ("1mbit", "100gbit"))
    assert slow["use"]["name"] == "dgc" and fast["use"]["name"] == "sync-sgd"
    assert "tightwire train --recipe dgc" in slow["command"] and "--lab 1mbit" in slow["command"]
    assert any("plain all-reduce" in line for line in fast["advice"])
    assert [ranking["workers"] for ranking in fast["rankings"]] == [1, 4]


def _json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert call(monkeypatch, *arguments) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_terminal_shows_advice_ranking_and_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: str, tmp_path: Path
) -> None:
    page = tmp_path / "plan.html"
    arguments = ("--profile", saved, *FEW, "--workers", "2,4", "--link", "100mbit", "-o", str(page))
    assert call(monkeypatch, "plan", *arguments) == 0
    out = capsys.readouterr().out
    assert "On 4 workers use" in out and "By bandwidth:" in out and "Run it:" in out
    assert all(name in out for name in ("sync-sgd", "dgc", "local-sgd", "asgd"))
    assert "<h1>stated on 4 workers: use" in page.read_text(encoding="utf-8")


OWN = """
from torch import nn

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.out = nn.Linear(16, classes)

    def forward(self, tokens):
        x = self.words(tokens)
        x = x + self.attend(x, x, x, need_weights=False)[0]
        return self.out(self.norm(x.mean(1)))

def net(inputs, classes):
    return Net(classes)

def huge(inputs, classes):
    return nn.Linear(2**20, 2**20)
"""


@pytest.fixture(autouse=True)
def _free_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody measures what messages cost (`test_planning` does)."""
    monkeypatch.setattr("tightwire.engines.planning.overheads_here", Overheads)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    (tmp_path / "own_plan_net.py").write_text(textwrap.dedent(OWN))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_network_of_ones_own_needs_no_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: Path
) -> None:
    found = _json(
        monkeypatch, capsys, "plan", "--model", "own_plan_net:net", "--recipes", "sync-sgd,dgc,layerwise", "--workers",
        "2", "--json", "-",
    )  # fmt: skip
    assert found["parameters"] == 50 * 16 + 4 * 16 * 16 + 4 * 16 + 32 + 16 * 10 + 10
    assert {row["name"] for row in found["rankings"][0]["rows"]} == {"sync-sgd", "dgc"}
    assert found["rankings"][0]["refused"][0]["recipe"] == "layerwise"


def test_a_network_larger_than_memory_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: Path
) -> None:
    assert call(monkeypatch, "plan", "--model", "own_plan_net:huge") == 2
    err = capsys.readouterr().err
    assert "weight of own_plan_net:huge takes 4,398.0 GB" in err and err.count("\n") == 1


@pytest.mark.browser
@pytest.mark.skipif(browser() is None, reason="needs chromium")
def test_the_page_can_be_a_picture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: str, tmp_path: Path
) -> None:
    picture = tmp_path / "plan.png"
    arguments = ("--profile", saved, "--recipes", "sync-sgd,dgc", "--workers", "2", "-o", str(picture))
    assert call(monkeypatch, "plan", *arguments) == 0
    width, height = size_of(picture)
    assert width == 1240 and height > 800 and picture.stat().st_size > 20_000
