"""The law of hard budgets: whatever is asked, what comes out costs at most the target."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

from tests.compress.search.toys import NETWORKS, examples, network, toy
from tightwire.compress.artifact import Artifact
from tightwire.compress.artifact import write as write_file
from tightwire.compress.errors import CompressError
from tightwire.compress.halves import round_rest_, round_shared
from tightwire.compress.prune.masks import prunable
from tightwire.compress.search.budget import Budget, parse_budget
from tightwire.compress.search.build import Built, Wish, build
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.clip import clip
from tightwire.compress.search.latency import Table, Timed, key_of
from tightwire.compress.search.layers import Layer, read_layers
from tightwire.compress.search.weights import Weights
from tightwire.compress.share.tensors import share
from tightwire.compress.shared_weights import SharedWeights
from tightwire.compress.size import Sizer
from tightwire.engines.shrink_file import Coded, tensors_of

STREAMS = 10_000


def asked(built: Built, count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.stack([random.integers(len(unit.choices), size=count) for unit in built.problem.units], 1)


def pretended(layers: dict[str, Layer]) -> Table:
    """Times that a device might have: noise, and steps at multiples of 4 channels."""
    table = Table("pretended", 1)
    random = np.random.default_rng(0)
    for layer in layers.values():
        counts = [tuple(sorted({max(1, n // 4), n // 2 or 1, n})) for n in (layer.shape.c, layer.shape.n)]
        if layer.depthwise:
            counts[0] = counts[1]
        ns = tuple(
            tuple(float(1000 + -(-i // 4) * -(-o // 4) * layer.positions * random.uniform(0.8, 1.2)) for o in counts[1])
            for i in counts[0]
        )
        table.rows[key_of(layer)] = Timed(counts[0], counts[1], ns)
    return table


def built(name: str, budget: str, prune: str = "channels", sizer: Sizer | None = None) -> Built:
    model, held = network(name), examples()
    wish = Wish(parse_budget(budget), prune, multiple_of=2 if prune == "channels" else 1)  # type: ignore[arg-type]
    table = pretended(read_layers(model, held.x_N[:1])) if "latency" in budget else None
    return build(model, held, held, wish, sizer=sizer, table=table)


@pytest.mark.parametrize("budget", ["flops=1", "params=1", "bytes=1", "latency=1"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_stream_of_actions_exceeds_the_budget(name: str, budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightwire.compress.search.build.in_turns_ns", lambda some, x: [float(_macs(m)) for m in some])
    made = built(name, budget)
    cost = made.problem.cost
    rule = clip(made.problem.units, cost, np.floor(cost.least + 0.4 * (cost.most - cost.least)))
    level_BT = rule.walk(asked(made, STREAMS))
    cost_B = cost.total(level_BT)
    assert float(cost_B.max()) <= rule.target
    assert float(cost_B.max()) > 0.9 * rule.target  # it does not simply give the least
    counts = {unit.name: {c.kept for c in unit.choices} for unit in made.problem.units}
    for t, unit in enumerate(made.problem.units):
        kept = np.array([c.kept for c in unit.choices])[level_BT[:, t]]
        assert set(kept.tolist()) <= counts[unit.name] and kept.min() >= 1


@pytest.mark.parametrize("budget", ["flops=1", "params=1", "bytes=1"])
def test_single_weights_stay_within_the_budget_too(budget: str) -> None:
    made = built("concat", budget, "weights")
    cost = made.problem.cost
    rule = clip(made.problem.units, cost, np.floor(cost.least + 0.4 * (cost.most - cost.least)))
    cost_B = cost.total(rule.walk(asked(made, STREAMS)))
    assert 0.9 * rule.target < float(cost_B.max()) <= rule.target


def _macs(module: object) -> float:
    return float(sum(p.numel() for p in module.parameters()))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["residual", "concat", "grouped", "depthwise"])
def test_what_is_counted_is_what_the_cut_network_has(name: str) -> None:
    made = built(name, "flops=0.4")
    scorer = made.scorer
    assert isinstance(scorer, Channels)
    for row in made.problem.clip.walk(asked(made, 3, seed=1)):
        cut = scorer.cut([int(level) for level in row], made.example)
        layers = read_layers(cut, made.example)
        assert sum(layer.macs for layer in layers.values()) == made.costs["flops"].total(row[None])[0]
        assert sum(p.numel() for p in cut.parameters()) == made.costs["params"].total(row[None])[0]


def test_files_of_any_policy_are_within_the_bytes_they_were_promised() -> None:
    made = built("concat", "bytes=0.2", "weights", Coded())
    scorer = made.scorer
    assert isinstance(scorer, Weights)
    for row in made.problem.clip.walk(asked(made, 2)):
        shared: dict[str, SharedWeights] = {
            unit.name: scorer.shared(u, int(row[u])) for u, unit in enumerate(made.problem.units)
        }
        size = Coded().whole(scorer.model, shared)
        assert size <= made.problem.cost.total(row[None])[0] <= made.problem.clip.target
        assert size == len(write_file(Artifact(_halves(scorer, shared))))


@pytest.mark.parametrize("name", ["depthwise", "concat"])
def test_files_of_cut_networks_too_whatever_their_weights_become(name: str) -> None:
    made = built(name, "bytes=1", sizer=Coded())
    scorer = made.scorer
    assert isinstance(scorer, Channels)
    for row in asked(made, 3):
        cut = scorer.cut([int(level) for level in row], made.example)
        with torch.no_grad():  # as if it had been trained on: uniform weights leave coders nothing to win
            shared = {name: share(weight.uniform_(-1, 1), 15) for name, weight in prunable(cut).items()}
        promised = made.problem.cost.total(row[None])[0]
        assert 0.7 * promised < Coded().whole(cut, shared) <= promised


def _halves(scorer: Weights, shared: dict[str, SharedWeights]) -> dict[str, object]:
    twin = deepcopy(scorer.model)
    round_rest_(twin, shared)
    return tensors_of(twin, {name: round_shared(tensor) for name, tensor in shared.items()})  # type: ignore[return-value]


def test_a_joint_grid_is_lowered_step_by_step() -> None:
    made = built("concat", "bytes=1", "joint")
    cost, unit = made.problem.cost, made.problem.units[2]
    rule = clip(made.problem.units, cost, np.floor(cost.least + 0.2 * (cost.most - cost.least)))
    level_1T = rule.begin(1)
    (chosen,) = rule.decide_(level_1T, 2, np.array([unit.asked([1.0, 1.0, 1.0])]))
    choice = unit.choices[int(chosen)]
    assert choice.pattern == "fine" and rule.cost.total(level_1T)[0] <= rule.target
    finer = unit.asked(
        [min(1.0, unit.action(int(chosen))[0] + 1.01 / (unit.axes[0] - 1)), *unit.action(int(chosen))[1:]]
    )
    assert rule.cost.around(level_1T, 2)[0, finer] > rule.target  # one step more would not fit
    assert float(rule.cost.total(rule.walk(asked(made, 2000))).max()) <= rule.target


def test_what_fits_is_not_changed() -> None:
    problem, _ = toy(0)
    rule = clip(problem.units, problem.cost, problem.cost.most)
    some = np.random.default_rng(0).integers(21, size=(50, 6))
    assert np.array_equal(rule.walk(some), some)


def test_a_budget_that_nothing_meets_is_refused() -> None:
    problem, _ = toy(0)
    with pytest.raises(CompressError, match="the smallest policy takes"):
        clip(problem.units, problem.cost, 0.5 * problem.cost.least)


@pytest.mark.parametrize("text", ["flops", "flops=-1", "speed=2", "latency=2kB", "bytes=x"])
def test_words_that_are_no_budget(text: str) -> None:
    with pytest.raises(CompressError, match=r"write flops=0\.5"):
        parse_budget(text)


def test_shares_and_amounts() -> None:
    assert parse_budget("bytes=0.1").target(1000) == 100
    assert parse_budget("params=50k") == Budget("params", amount=50_000)
    assert str(parse_budget("latency=2ms")) == "latency=2ms"
