"""`tightwire shrink` from a run to a file that runs, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tightwire.algebra.errors import TightwireError
from tightwire.cli import app as cli
from tightwire.compress.artifact import build, read
from tightwire.engines.shrink import ShrinkConfig, Wish, shrink_to_file
from tightwire.engines.shrink_source import find_source, make_sets
from tightwire.models import make

WISH = Wish(prune=0.7, bits=3, epochs=3, polish_epochs=1)


def quiet(stage: str, done: int, total: int) -> None:
    pass


def test_a_run_becomes_a_file_that_answers_as_the_report_says(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.twz"
    result = shrink_to_file(ShrinkConfig(trained, out, WISH.plan()), told=quiet)
    assert result["nbytes"] == out.stat().st_size and result["ratio"] == result["dense_nbytes"] / result["nbytes"] > 15
    assert json.loads((tmp_path / "m.json").read_text()) == result
    page = (tmp_path / "m.html").read_text()
    assert "times smaller" in page and all(layer["layer"] in page for layer in result["layers"])
    source = find_source(trained, model=None, options={}, data=None, data_folder=None)
    assert source.data is not None
    sets = make_sets(source.data, device="cpu", decide=False)
    model = build(read(out))
    right = (model(sets.test.x_N).argmax(1) == sets.test.y_N).float().mean()
    assert result["test_accuracy"] == pytest.approx(float(right)) and right > 0.85
    assert sum(int((w != 0).sum()) for n, w in model.state_dict().items() if n.endswith("weight")) < 0.31 * 16_896 + 640
    assert min(result["samples_per_second"].values()) > 0
    again = shrink_to_file(ShrinkConfig(trained, out, WISH.plan()), told=pytest.fail)  # all stages are kept
    assert again["nbytes"] == result["nbytes"]


def test_a_file_of_weights_is_shrunk_without_data(trained: Path, tmp_path: Path) -> None:
    plan = Wish(bits=5, bit_cost=0.0).plan()
    config = ShrinkConfig(trained / "model.safetensors", tmp_path / "m.twz", plan, model="mlp")
    result = shrink_to_file(config, told=pytest.fail)
    with pytest.raises(TightwireError, match="--scan measures accuracy"):
        shrink_to_file(replace(config, scan=True), told=quiet)
    assert "test_accuracy" not in result and result["ratio"] > 5
    before, after = load_file(trained / "model.safetensors"), build(read(tmp_path / "m.twz")).state_dict()
    assert all((before[name] - after[name]).abs().max() < 0.1 for name in before)


def test_thresholds_in_deviations_and_a_scan_that_is_drawn(trained: Path, tmp_path: Path) -> None:
    plan = Wish(quality=1.0, bits=3, epochs=1, polish_epochs=0).plan()
    result = shrink_to_file(ShrinkConfig(trained, tmp_path / "q.twz", plan, scan=True), told=quiet)
    assert all(0.1 < layer["density"] < 0.6 for layer in result["layers"])  # a third of Gaussian weights exceed 1
    names = {layer["layer"] for layer in result["layers"]}
    assert {point["layer"] for point in result["sensitivity"]} == names
    for name in names:
        own = {point["density"]: point["accuracy"] for point in result["sensitivity"] if point["layer"] == name}
        assert own[1.0] >= own[0.05] and own[1.0] > 0.9
    page = (tmp_path / "q.html").read_text()
    assert page.count('class="line thin"') == len(names) and "bears alone" in page


def test_what_cannot_be_shrunk_is_said(trained: Path, tmp_path: Path) -> None:
    def shrink(source: Path, **changes: Any) -> None:
        shrink_to_file(ShrinkConfig(source, tmp_path / "x.twz", WISH.plan(), **changes), told=quiet)

    with pytest.raises(TightwireError, match="is not a run"):
        shrink(tmp_path)
    with pytest.raises(TightwireError, match="there is no "):
        shrink(tmp_path / "nowhere")
    with pytest.raises(TightwireError, match="say of which network with --model"):
        shrink(trained / "model.safetensors")
    with pytest.raises(TightwireError, match=r"does not fit lenet-300-100: .* are of another shape .*--model-option$"):
        shrink(trained / "model.safetensors", model="lenet-300-100")
    diverged = {name: tensor / 0 for name, tensor in load_file(trained / "model.safetensors").items()}
    save_file(diverged, tmp_path / "diverged.safetensors")
    with pytest.raises(TightwireError, match=r"is not finite; train it again with a lower --lr"):
        shrink(tmp_path / "diverged.safetensors", model="mlp")
    (tmp_path / "bad.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(TightwireError, match="cannot be read as safetensors"):
        shrink(tmp_path / "bad.safetensors", model="mlp")
    with pytest.raises(TightwireError, match="is not KEY=VALUE"):
        shrink(trained, options=("norm",))
    save_file({"w": torch.ones(1)}, tmp_path / "text.safetensors")
    with pytest.raises(TightwireError, match="give --data"):
        shrink(tmp_path / "text.safetensors", model="mine:net")
    assert not (tmp_path / "x.twz").exists()


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish(bits=0), "bits=0"),
        (Wish(prune=1.0), r"prune=1\.0"),
        (Wish(by="chance"), "by='chance'"),
        (Wish(epochs=-1), "epochs=-1"),
        (Wish(ratio=20, max_loss=0.0), "two goals"),
        (Wish(quality=0.0), r"quality=0\.0"),
        (Wish(quality=1.0, prune=0.5), "decide the density"),
    ],
)
def test_wishes_that_have_no_meaning(wish: Wish, said: str) -> None:
    with pytest.raises(TightwireError, match=said):
        wish.plan()


def test_the_command(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    out = tmp_path / "c.twz"
    words = ["shrink", str(trained), "--prune", "0.5", "--bits", "4", "--epochs", "1", "--polish-epochs", "1"]
    monkeypatch.setattr("sys.argv", ["tightwire", *words, "-o", str(out), "--json", "-"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr()
    assert ended.value.code == 0 and json.loads(told.out)["nbytes"] == out.stat().st_size
    assert "polish" in told.err and "times smaller" in told.err
    monkeypatch.setattr("sys.argv", ["tightwire", "shrink", str(tmp_path / "none"), "-o", str(out)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2 and "Traceback" not in capsys.readouterr().err


def test_channels_of_the_catalogue_are_what_a_bare_file_is_made_for() -> None:
    assert sum(p.numel() for p in make("mobilenet-v2", inputs=(3, 224, 224), classes=1000).parameters()) == 3_504_872
