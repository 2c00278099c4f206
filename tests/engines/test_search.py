"""`tightwire search` from a run to a policy, and `shrink --policy` from there to a file; what both refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.compress.search.toys import toy
from tightwire.algebra.errors import TightwireError
from tightwire.cli import app as cli
from tightwire.compress.artifact import build, read
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Wish
from tightwire.compress.search.policy import load_policy
from tightwire.compress.search.problem import Tried
from tightwire.compress.search.rules import uniform_levels
from tightwire.engines.page import COLORS
from tightwire.engines.search import SearchConfig, search_policy
from tightwire.engines.search_methods import METHODS, Searched, every_method, winner
from tightwire.engines.search_page import page
from tightwire.engines.search_words import default_prune, parse_rounds
from tightwire.engines.shrink import ShrinkConfig, shrink_to_file
from tightwire.engines.shrink import Wish as ShrinkWish

PLAN = ShrinkWish(epochs=2, polish_epochs=1).plan()


def quiet(*_: Any) -> None:
    pass


def config(trained: Path, out: Path, budget: str, prune: str, **changes: Any) -> SearchConfig:
    return SearchConfig(trained, out, Wish(parse_budget(budget), prune), episodes=12, **changes)  # type: ignore[arg-type]


def test_a_budget_of_bytes_is_kept_by_the_file_that_is_written(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.json"
    seen: list[tuple[str, int]] = []
    asked = config(trained, out, "bytes=5kB", "weights", methods=("amc", "uniform", "sensitivity", "evolution"))
    result = search_policy(asked, watch=lambda method, done, *_: seen.append((method, done)))
    assert result["cost"] <= result["target"] == 5000 and set(result["methods"]) == set(asked.methods)
    assert max(done for method, done in seen if method == "evolution") == 12 and ("uniform", 1) in seen
    policy = load_policy(out)
    assert [row.layer for row in policy.layers] == ["1.weight", "3.weight", "5.weight"]
    made = shrink_to_file(ShrinkConfig(trained, tmp_path / "m.twz", PLAN, policy=out), told=quiet)
    assert (tmp_path / "m.twz").stat().st_size == made["nbytes"] <= 5000
    state = build(read(tmp_path / "m.twz")).state_dict()
    for row in policy.layers:
        assert float((state[row.layer] != 0).float().mean()) <= row.ratio + 1e-3
    assert made["test_accuracy"] > 0.85
    assert "1.weight" in (tmp_path / "policy.html").read_text() and "nothing retrained" in page(result)
    assert "chance" not in page(result)
    luckier = {name: {**row, "error": 0.0} for name, row in result["methods"].items()}
    assert "The fewer errors of " in page(result | {"error": 0.5, "methods": luckier})


def test_channels_are_cut_fine_tuned_and_written(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.json"
    result = search_policy(config(trained, out, "flops=0.4", "channels"), watch=quiet)
    assert result["cost"] <= 0.4 * result["whole"]
    made = shrink_to_file(ShrinkConfig(trained, tmp_path / "m.twz", PLAN, policy=out), told=quiet)
    model = build(read(tmp_path / "m.twz"))
    kept = {row["layer"]: row["kept"] for row in result["layers"]}
    assert {name: model.get_submodule(name).weight.shape[0] for name in kept} == kept  # type: ignore[union-attr, index]
    assert [stage["stage"] for stage in made["stages"]] == ["0-reference", "0-cut", "1-prune", "2-share", "3-polish"]
    assert made["stages"][1]["test"]["accuracy"] == pytest.approx(result["test_accuracy"]["pruned"])
    assert made["test_accuracy"] > 0.85 and made["ratio"] > 10


def test_patterns_and_bits_of_a_joint_policy_are_those_of_the_file(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy.json"
    result = search_policy(config(trained, out, "bytes=6kB", "joint"), watch=quiet)
    words = json.loads(out.read_text())
    asked = [("vector:4", 2, 0.1), ("fine", 3, 0.2), ("fine", 5, 0.5)]  # unlike anything that a uniform policy has
    for row, (pattern, bits, ratio) in zip(words["layers"], asked, strict=True):
        row |= {"pattern": pattern, "bits": bits, "ratio": ratio, "kept": round(ratio * row["of"])}
    out.write_text(json.dumps(words))
    made = shrink_to_file(ShrinkConfig(trained, tmp_path / "m.twz", PLAN, policy=out), told=quiet)
    assert made["nbytes"] <= 6000 and result["cost"] <= 6000
    state = build(read(tmp_path / "m.twz")).state_dict()
    for (pattern, bits, ratio), layer in zip(asked, made["layers"], strict=True):
        weight = state[layer["layer"]]
        fours = (weight.reshape(len(weight), -1, 4) != 0).float().mean(-1)
        mixed = float(((fours > 0) & (fours < 1)).float().mean())  # blocks of four that are neither kept nor gone
        assert (mixed == 0) if pattern == "vector:4" else (mixed > 0.1)
        assert len(weight.unique()) <= (1 << bits) + 1 and float((weight != 0).float().mean()) <= ratio + 1e-3


def test_killed_and_started_again_it_finds_the_same(trained: Path, tmp_path: Path) -> None:
    class Killed(Exception):  # noqa: N818
        pass

    def kill(method: str, done: int, total: int, tried: Tried, used: float) -> None:
        if (method, done) == ("evolution", 7):
            raise Killed

    methods = ("amc", "amc-paper", "evolution")
    whole = search_policy(config(trained, tmp_path / "a.json", "params=0.3", "weights", methods=methods), watch=quiet)
    asked = config(trained, tmp_path / "b.json", "params=0.3", "weights", methods=methods)
    with pytest.raises(Killed):
        search_policy(asked, watch=kill)
    again = search_policy(asked, watch=quiet)
    for method in methods:
        assert again["methods"][method]["trace"] == whole["methods"][method]["trace"]
    with pytest.raises(TightwireError, match="holds another search"):
        search_policy(replace(asked, seed=1), watch=quiet)
    search_policy(replace(asked, seed=1, overwrite=True, episodes=2), watch=quiet)


def test_rounds_prune_and_train_in_between(trained: Path, tmp_path: Path) -> None:
    asked = config(trained, tmp_path / "p.json", "params=0.2", "weights", rounds=(0.5, 0.2), round_epochs=1.0)
    result = search_policy(asked, watch=quiet)
    rounds = result["settings"]["rounds"]
    assert [row["density"] for row in rounds] == [0.5, 0.2] and result["cost"] <= 0.2 * result["whole"]
    once = 1e-3  # of a layer: weights are counted in whole ones
    assert all(late <= early + once for early, late in zip(rounds[0]["layers"], rounds[1]["layers"], strict=True))
    assert all(abs(row["kept"] - row["ratio"] * row["of"]) < 1 for row in result["layers"])  # of all
    assert "round at 50%" in (tmp_path / "p.html").read_text()


Clock = Callable[[torch.nn.Module, torch.Tensor], float]


def _pretend(monkeypatch: pytest.MonkeyPatch, first: Clock, later: Clock) -> None:
    """Layers, and networks before the search, take the time ``first`` says; what was found is timed by ``later``."""
    monkeypatch.setattr("tightwire.compress.search.latency.time_ns", first)
    for name, clock in (("compress.search.build", first), ("engines.search_aim", later)):
        timed = partial(lambda clock, modules, x: [clock(module, x) for module in modules], clock)
        monkeypatch.setattr(f"tightwire.{name}.in_turns_ns", timed)


def test_a_latency_is_aimed_at(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(module: torch.nn.Module, x: torch.Tensor) -> float:
        return 1_000.0 + sum(p.numel() for p in module.parameters())

    def slower(module: torch.nn.Module, x: torch.Tensor) -> float:
        assert len(x) == 8 and not torch.equal(x[0], x[1])
        return 1.3 * pretend(module, x)  # a machine that has become slower meanwhile

    _pretend(monkeypatch, pretend, slower)
    asked = config(trained, tmp_path / "p.json", "latency=0.7", "channels", table=tmp_path / "table.json")
    asked = replace(asked, wish=replace(asked.wish, batch=8))
    result = search_policy(asked, watch=quiet)
    timed = result["settings"]["latency"]
    assert timed["budget_ns"] == pytest.approx(0.7 * timed["whole_ns"])
    assert 0.92 * timed["budget_ns"] <= timed["measured_ns"] <= timed["budget_ns"]
    assert result["cost"] <= result["target"]
    aimed = json.loads((tmp_path / "p.json.work" / "aim.json").read_text())
    _pretend(monkeypatch, slower, slower)
    again = search_policy(asked, watch=quiet)
    assert again["methods"]["amc"]["trace"] == result["methods"]["amc"]["trace"]
    assert json.loads((tmp_path / "p.json.work" / "aim.json").read_text()) == aimed
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert len(rows) == 3 and "Timed as a whole" in (tmp_path / "p.html").read_text()


def test_a_latency_that_nothing_meets_ends_with_the_fastest(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    def narrow(module: torch.nn.Module, x: torch.Tensor) -> float:
        return 10.0 * sum(map(len, module.parameters()))

    def busy(module: torch.nn.Module, x: torch.Tensor) -> float:
        times.append(1e7 + sum(p.numel() for p in module.parameters()))  # as if pruning took nothing away
        return times[-1]

    _pretend(monkeypatch, narrow, busy)
    asked = config(trained, tmp_path / "p.json", "latency=0.7", "channels")
    timed = search_policy(replace(asked, episodes=3), watch=quiet)["settings"]["latency"]
    least, whole = min(times[::2]), times[1]
    assert timed["measured_ns"] == pytest.approx(timed["whole_ns"] * least / whole) and len(times) == 8
    assert timed["measured_ns"] > timed["budget_ns"]
    tiny = config(trained, tmp_path / "q.json", "latency=0.01", "channels")
    with pytest.raises(TightwireError, match=r"latency=0\.01 cannot be met: the smallest network takes .* ms here"):
        search_policy(tiny, watch=quiet)


def test_what_cannot_be_searched_or_followed_is_said(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    with pytest.raises(TightwireError, match="method magic is not known"):
        config(trained, out, "flops=0.5", "channels", methods=("magic",))
    with pytest.raises(TightwireError, match="use --prune weights"):
        config(trained, out, "flops=0.5", "channels", rounds=(0.5,))
    with pytest.raises(TightwireError, match="comes without data"):
        search_policy(config(trained / "model.safetensors", out, "flops=0.5", "channels", model="mlp"), watch=quiet)
    with pytest.raises(TightwireError, match="cannot be met"):
        search_policy(config(trained, out, "params=10", "weights"), watch=quiet)
    search_policy(replace(config(trained, out, "params=0.5", "weights", overwrite=True), episodes=1), watch=quiet)
    words = json.loads(out.read_text())
    for change, sentence in (
        ({"digest": "x"}, "other weights"), ({"model": "cnn"}, "is a policy for cnn"), ({"version": 9}, "no policy"),
        ({"layers": []}, "damaged policy"), ({"layers": [{"layer": 3}]}, "damaged policy"),
    ):  # fmt: skip
        (tmp_path / "bad.json").write_text(json.dumps(words | change))
        with pytest.raises(TightwireError, match=sentence):
            shrink_to_file(ShrinkConfig(trained, tmp_path / "x.twz", PLAN, policy=tmp_path / "bad.json"), told=quiet)
    wish = ShrinkWish(prune=0.5, epochs=1).plan()
    with pytest.raises(TightwireError, match="leave out --prune"):
        shrink_to_file(ShrinkConfig(trained, tmp_path / "x.twz", wish, policy=out), told=quiet)
    with pytest.raises(TightwireError, match="densities that fall"):
        parse_rounds("0.2,0.5")


def test_what_is_pruned_where_nothing_is_said() -> None:
    assert default_prune(parse_budget("latency=2ms"), rounds=False) == "channels"
    assert default_prune(parse_budget("bytes=2kB"), rounds=False) == "weights"


def test_the_command_prints_methods_and_layers(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "policy.json"
    monkeypatch.setattr(
        "sys.argv",
        ["tightwire", "search", str(trained), "--budget", "params=0.3", "--method", "all", "--episodes", "8",
         "-o", str(out)],
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(
        word in shown for word in ("threshold", "sensitivity", "evolution", "1.weight", "next: tightwire shrink")
    )
    drawn = out.with_suffix(".html").read_text(encoding="utf-8")
    assert 'class="line thin c5"' in drawn, "uniform at every size has a colour of its own beside five methods"


def test_all_methods_are_those_for_what_is_pruned() -> None:
    weights, channels = (set(every_method(prune)) for prune in ("weights", "channels"))
    assert {*weights, *channels, "amc-paper"} == set(METHODS)
    assert weights - channels == {"threshold"} and channels - weights == {"curvature"}
    assert len(COLORS) > len(weights) + 1, "the paper's agent, and uniform at every size"


def test_of_all_methods_chance_does_not_choose_and_the_first_that_found_it_is_named() -> None:
    problem, _ = toy(5)
    counted = replace(problem, samples=300)
    even, other = counted.evaluate(np.array([uniform_levels(problem), [0] * len(problem.units)]))
    cheap = replace(other, error=even.error - 1 / 300, reward=even.reward + 1 / 300)
    one = {"amc": cheap, "uniform": even, "evolution": even}
    found = {method: Searched([tried], 1, 0.0) for method, tried in one.items()}
    assert winner(counted, found) == ("uniform", even)
    assert winner(problem, found) == ("amc", cheap)
