"""The agent: near the optimum where it is known, above uniform, and the same after it was killed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.compress.search.toys import Known, joint_toy, toy
from tightwire.algebra.threads import threads
from tightwire.compress.errors import CompressError
from tightwire.compress.search import rivals, rules
from tightwire.compress.search.amc import Search
from tightwire.compress.search.ddpg import PAPER, Ddpg, Settings
from tightwire.compress.search.keep import Keep
from tightwire.compress.search.moves import nudge, tilt
from tightwire.compress.search.problem import Tried, best
from tightwire.compress.search.replay import Replay
from tightwire.compress.search.state import FEATURES, States

SMALL = Settings(hidden=64)


def quiet(number: int, tried: Tried) -> None:
    pass


def _close(seed: int) -> None:
    problem, optimum = toy(seed)
    found = 1 - best(Search(problem, settings=SMALL, seed=seed).run(400)).error
    (uniform,) = rivals.uniform(problem, 400, told=quiet)
    assert found >= 0.98 * optimum and found > 1 - uniform.error + 0.02


@pytest.mark.parametrize("seed", [0, 4])
def test_amc_is_within_two_percent_of_the_optimum_and_above_uniform(seed: int) -> None:
    _close(seed)


def test_in_all_of_ten_seeds(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--slow"):
        pytest.skip("ten searches take a minute: --slow")
    for seed in range(10):
        _close(seed)


def test_the_agent_itself_learns_without_help() -> None:
    problem, _ = toy(2, units=4)
    tried = Search(problem, settings=Settings(hidden=64, elite=0.0, decay=0.96), seed=0).run(220)
    errors = [one.error for one in tried]
    assert np.mean(errors[-30:]) < 0.75 * np.mean(errors[:60])


def test_a_joint_search_finds_the_pattern_and_the_bits_of_every_layer() -> None:
    problem, optimum = joint_toy()
    (uniform,) = rivals.uniform(problem, 1, told=quiet)
    found = best(Search(problem, settings=Settings(hidden=32), seed=0).run(150))
    chosen = [(choice.pattern, choice.bits) for choice in problem.choices(found.levels)]
    assert chosen == [("fine", 4), ("kernel", 2), ("fine", 2)]
    assert 1 - found.error > 0.98 * optimum > 1.2 * (1 - uniform.error) and found.cost <= problem.clip.target


def test_it_learns_in_one_thread_and_measures_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = toy(1, units=2)
    learned, measured = set[int](), set[int]()
    monkeypatch.setattr(Ddpg, "update", lambda agent, random: learned.add(torch.get_num_threads()))
    monkeypatch.setattr(Known, "errors", lambda known, some: [float(measured.add(torch.get_num_threads()) or 0)])
    with threads(3):
        Search(problem, settings=Settings(hidden=8, warmup=1)).run(5)
    assert (learned, measured) == ({1}, {3})


def test_killed_and_resumed_it_ends_the_same_to_the_bit(tmp_path: Path) -> None:
    settings = Settings(hidden=16, warmup=10, memory=100)
    whole = Search(toy(3)[0], settings=settings, seed=5).run(60)
    keep = Keep(tmp_path / "amc.safetensors", "this")
    Search(toy(3)[0], settings=settings, seed=5).run(37, keep=keep)  # kept at 25 and at its end
    (tmp_path / "amc.safetensors").replace(tmp_path / "later.safetensors")
    Search(toy(3)[0], settings=settings, seed=5).run(25, keep=keep)
    for path in ("amc", "later"):
        again = Search(toy(3)[0], settings=settings, seed=99)
        assert again.run(60, keep=Keep(tmp_path / f"{path}.safetensors", "this")) == whole
    with pytest.raises(CompressError, match="holds another search"):
        Search(toy(3)[0], settings=settings).run(60, keep=Keep(keep.path, "that"))
    with pytest.raises(CompressError, match="holds other settings"):
        Search(toy(3)[0], settings=SMALL).run(60, keep=keep)
    keep.path.write_bytes(b"\x00" * 40)
    with pytest.raises(CompressError, match="cannot be read"):
        Search(toy(3)[0], settings=settings).run(60, keep=keep)


def test_a_tilt_moves_all_units_along_their_features_and_meets_the_budget() -> None:
    problem, _ = toy(0, units=12)
    states = States(problem.units, problem.cost)
    even = rules.uniform_levels(problem)
    actions = [np.array(unit.action(int(level)), np.float32) for unit, level in zip(problem.units, even, strict=True)]
    place_T = states.fixed_TF[:, :1]  # how deep a unit is
    for seed in range(5):
        moved = tilt(problem, actions, place_T, 0.3, np.random.default_rng(seed))
        step_T = np.array([float(m[0] - a[0]) for m, a in zip(moved, actions, strict=True)])
        inside = [t for t, one in enumerate(moved) if 0 < one[0] < 1]
        slope = np.diff(step_T[inside]) / np.diff(inside)
        assert len(inside) > 4 and np.ptp(slope) < 1e-5 < np.abs(slope).max()  # a straight line through the depth
        asked = [unit.asked([float(one[0])]) for unit, one in zip(problem.units, moved, strict=True)]
        assert 0.9 * problem.clip.target < problem.cost.total(np.array([asked]))[0] <= problem.clip.target


def test_a_nudge_moves_a_few_units() -> None:
    actions = [np.array([0.5], np.float32) for _ in range(12)]
    for seed in range(5):
        moved = nudge(actions, 0.2, np.random.default_rng(seed))
        assert 1 <= sum(a[0] != b[0] for a, b in zip(actions, moved, strict=True)) <= 3


def test_seeds_decide() -> None:
    settings = Settings(hidden=16, warmup=5)
    runs = [Search(toy(1)[0], settings=settings, seed=seed).run(12) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


def test_eleven_features_between_zero_and_one() -> None:
    problem, _ = toy(4)
    states = States(problem.units, problem.cost)
    assert states.width == FEATURES == 11
    rows = np.stack([states.at(t, problem.clip.walk(np.full((1, 6), 20))) for t in range(6)])
    assert rows.min() >= 0 and rows.max() <= 1 and rows.dtype == np.float32
    assert rows[0, 8] == 0 and (np.diff(rows[:, 8]) >= 0).all()  # nothing is reduced before the first
    assert rows[-1, 9] == 0 and rows[0, 10] == 1


def test_the_state_tells_what_was_really_chosen() -> None:
    problem, _ = toy(4)
    states = States(problem.units, problem.cost)
    chosen = problem.clip.walk(np.full((1, 6), 20))
    for t in range(1, 6):
        ratio = problem.units[t - 1].choices[int(chosen[0, t - 1])].ratio
        assert states.at(t, chosen)[10] == pytest.approx(ratio)


def test_replay_is_a_ring() -> None:
    ring = Replay(3, state=1, action=1)
    for number in range(5):
        one = np.array([number], np.float32)
        ring.add(one, one, float(number), one, more=number < 4)
    state, _, reward, _, more = ring.draw(200, np.random.default_rng(0))
    assert set(state[:, 0].tolist()) == {2.0, 3.0, 4.0} == set(reward[:, 0].tolist()) and ring.held == 3
    assert set(more[state == 4].tolist()) == {0.0}


def test_nets_have_the_sizes_of_the_paper() -> None:
    agent = Ddpg(state=11, action=1, settings=PAPER, seed=0)
    assert agent.actor.flat.numel() == 11 * 300 + 300 + 300 * 300 + 300 + 300 + 1
    assert agent.critic.flat.numel() == 11 * 300 + 300 + 300 + 300 + 300 * 300 + 300 + 300 + 1
    assert asdict(PAPER)["gamma"] == 1.0 and (PAPER.actor_lr, PAPER.critic_lr, PAPER.tau) == (1e-4, 1e-3, 0.01)
    action = agent.act(np.zeros(11, np.float32))
    assert action.shape == (1,) and 0 < action[0] < 1
