"""The pipeline: prunes, shares, polishes to what was asked; goes on where it was killed; holds what it promises."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tightwire.compress import pipeline as pipelines
from tightwire.compress import unfinished
from tightwire.compress.errors import CompressError
from tightwire.compress.pipeline import Pipeline, Sets
from tightwire.compress.plan import Plan
from tightwire.compress.prune import prunable
from tightwire.compress.retrain import Examples, Training, evaluate, train
from tightwire.compress.size import Estimate, dense_nbytes
from tightwire.compress.work import Work


@pytest.fixture(scope="module")
def sets() -> Sets:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1500, 20, generator=random)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return Sets(Examples(x[:1000], y[:1000]), Examples(x[1000:1250], y[1000:1250]), Examples(x[1250:], y[1250:]))


@pytest.fixture(scope="module")
def trained(sets: Sets) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))
    train(model, sets.train, Training(epochs=8, batch=50, lr=5e-3))
    return model


PLAN = Plan(
    density=0.3,
    centroids=8,
    bit_cost=0.01,
    retrain=Training(epochs=6, batch=50, lr=5e-3),
    polish=Training(epochs=2, batch=50),
)


def test_from_a_network_to_shared_weights(trained: nn.Module, sets: Sets) -> None:
    model = deepcopy(trained)
    seen: list[tuple[str, int, int]] = []
    made = Pipeline(model, PLAN, sets, told=lambda *told: seen.append(told)).run()
    assert [stage["stage"] for stage in made.stages] == ["0-reference", "1-prune", "2-share", "3-polish"]
    for name, weight in prunable(model).items():
        shared = made.shared[name]
        assert torch.equal(shared.dense(), weight) and len(shared.codebook_K) <= 8
        assert torch.equal(weight, weight.half().float())
    assert made.stages[1]["density"] == pytest.approx(0.3, abs=0.001)
    before, after = made.stages[0]["test"]["accuracy"], made.stages[-1]["test"]["accuracy"]
    assert before > 0.7 and after > before - 0.03 and after == evaluate(model, sets.test).accuracy
    assert made.stages[-1]["ratio"] == dense_nbytes(model) / made.stages[-1]["nbytes"] > 10
    assert seen[0] == ("1-prune", 1, 120) and seen[-1] == ("3-polish", 40, 40)
    assert all(p.dtype == torch.float32 and torch.equal(p, p.half().float()) for p in model.parameters())


def test_numbers_may_stay_whole(trained: nn.Module, sets: Sets) -> None:
    model = deepcopy(trained)
    made = Pipeline(model, replace(PLAN, numbers="float"), sets).run()
    assert all(torch.equal(made.shared[name].dense(), weight) for name, weight in prunable(model).items())
    assert any(not torch.equal(p, p.half().float()) for p in model.parameters())


class Killed(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize(("stage", "every_s"), [("1-prune", 0.0), ("3-polish", 0.0), ("3-polish", 30.0)])
def test_killed_and_started_again_it_ends_the_same(
    trained: nn.Module, sets: Sets, tmp_path: Path, stage: str, every_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished, "_EVERY_S", every_s)
    whole = Pipeline(deepcopy(trained), PLAN, sets).run()

    def die(now: str, done: int, total: int) -> None:
        if now == stage and done == 10:
            raise Killed

    with pytest.raises(Killed):
        Pipeline(deepcopy(trained), PLAN, sets, Work(tmp_path), told=die).run("net")
    assert (tmp_path / f"{stage}.unfinished").exists() == (every_s == 0)
    seen: list[str] = []
    again = Pipeline(deepcopy(trained), PLAN, sets, Work(tmp_path), told=lambda now, done, total: seen.append(now)).run(
        "net"
    )
    assert set(seen) == ({"1-prune", "3-polish"} if stage == "1-prune" else {"3-polish"})
    assert all(again.shared[name].same(tensor) for name, tensor in whole.shared.items())
    assert [s["test"] for s in again.stages] == [s["test"] for s in whole.stages]
    calm = Pipeline(deepcopy(trained), PLAN, sets, Work(tmp_path), told=die).run("net")  # all is done: nobody dies
    assert all(calm.shared[name].same(tensor) for name, tensor in whole.shared.items())


def test_work_of_another_plan_or_network_is_not_gone_on_with(trained: nn.Module, sets: Sets, tmp_path: Path) -> None:
    quick = replace(PLAN, retrain=replace(PLAN.retrain, epochs=1), polish=replace(PLAN.polish, epochs=0))
    Pipeline(deepcopy(trained), quick, sets, Work(tmp_path)).run("net")
    for plan, source in ((replace(quick, density=0.5), "net"), (quick, "other")):
        with pytest.raises(CompressError, match="another plan or network"):
            Pipeline(deepcopy(trained), plan, sets, Work(tmp_path)).run(source)
    (tmp_path / "1-prune.safetensors").write_bytes(b"damaged")
    with pytest.raises(CompressError, match=r"stage 1-prune .* cannot be read"):
        Pipeline(deepcopy(trained), quick, sets, Work(tmp_path)).run("net")


def test_a_ratio_is_reached(trained: nn.Module, sets: Sets) -> None:
    model = deepcopy(trained)
    made = Pipeline(model, replace(PLAN, density=None, ratio=12.0), sets).run()
    share = next(stage for stage in made.stages if stage["stage"] == "2-share")
    assert share["ratio"] >= 12 and Estimate().whole(model, made.shared) <= dense_nbytes(model) / 12
    with pytest.raises(CompressError, match="ask for a smaller ratio"):
        Pipeline(deepcopy(trained), replace(PLAN, density=None, ratio=200.0), sets).run()
    with pytest.raises(CompressError, match="prune more"):
        Pipeline(deepcopy(trained), replace(PLAN, density=0.9, ratio=12.0), sets).run()


def test_a_loss_is_held_and_bytes_are_saved(trained: nn.Module, sets: Sets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "_RUNGS", 5)
    made = Pipeline(deepcopy(trained), replace(PLAN, density=None, max_loss=1.0), sets).run()
    reference, last = made.stages[0], made.stages[-1]
    assert 100 * (reference["valid"]["accuracy"] - last["valid"]["accuracy"]) <= 1.0
    assert last["stage"].startswith("3-polish") and last["ratio"] > 10
    taken_back = [stage for stage in made.stages if stage.get("taken_back")]
    good = [s for s in made.stages if s["stage"].startswith("1-prune") and s not in taken_back]
    assert last["density"] <= good[-1]["density"]
    assert all(100 * (reference["valid"]["accuracy"] - s["valid"]["accuracy"]) > 1.0 for s in taken_back)


def test_without_data_nothing_is_trained(trained: nn.Module) -> None:
    model = deepcopy(trained)
    made = Pipeline(model, Plan(density=0.5, centroids=256, bit_cost=0.0)).run()
    assert made.stages[-1]["density"] == pytest.approx(0.5, abs=0.001) and "test" not in made.stages[-1]
    kept = prunable(trained)
    for name, tensor in made.shared.items():
        dense = tensor.dense()
        assert torch.allclose(dense[dense != 0], kept[name][dense != 0], atol=0.02)
    with pytest.raises(CompressError, match="give --data"):
        Pipeline(model, Plan(max_loss=0.0))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"density": 0.0}, "density=0.0"),
        ({"ratio": 0.5}, "more than 1"),
        ({"ratio": 10.0, "max_loss": 0.0}, "two goals"),
        ({"max_loss": -1.0}, "points of accuracy"),
        ({"bit_cost": -0.1}, "at least nothing"),
        ({"pattern": "round"}, "pattern 'round'"),
        ({"schedule": "slow"}, "schedule 'slow'"),
    ],
)
def test_plans_that_cannot_be(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(CompressError, match=said):
        Plan(**wrong)
