"""Real servers are killed, stopped, cut off, leave and join while four workers train; what was told counts, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.here import needs_lab
from tightwire.engines.chaos import COPIES, WORKERS, Strike, Verdict, draw, run
from tightwire.engines.chaos_ground import Ground, ground

pytestmark = pytest.mark.processes
STEPS = 100
SCHEDULES = [
    pytest.param([Strike("kill", 0, 1.0, 0.2)], None, id="the head is killed"),
    pytest.param(
        [Strike("stop", 0, 1.5, 0.1), Strike("kill", 1, 0.5, 0.1)], None, id="the head is stopped, then the tail killed"
    ),
    pytest.param([Strike("cut", 0, 1.5, 0.2)], "1gbit", id="the cable of the head is pulled", marks=needs_lab),
]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    verdict = run(tmp_path_factory.mktemp("calm"), 0, strikes=[], steps=STEPS)
    assert verdict.good and verdict.accuracy > 0.9, verdict
    return verdict


@pytest.mark.parametrize(("strikes", "rate"), SCHEDULES)
def test_nothing_is_lost_when(tmp_path: Path, calm: Verdict, strikes: list[Strike], rate: str | None) -> None:
    verdict = run(tmp_path, 0, strikes=strikes, rate=rate, steps=STEPS)
    assert verdict.good, verdict
    assert verdict.pushes == WORKERS * STEPS
    assert verdict.views > COPIES and not any(text.startswith("no ") for text in verdict.strikes), verdict
    assert abs(verdict.accuracy - calm.accuracy) <= 0.01, (verdict, calm)


def test_with_one_copy_servers_join_and_leave(tmp_path: Path, calm: Verdict) -> None:
    moves = [Strike("join", 0, 0.4, 0.1), Strike("leave", 0, 0.4, 0.1), Strike("stop", 0, 1.2, 0.1)]
    verdict = run(tmp_path, 0, strikes=moves, steps=STEPS, shards=2, servers=1, copies=1)
    assert verdict.good and verdict.pushes == WORKERS * STEPS, verdict
    assert "server 1 joined, and keeps 1 of 2 copies" in verdict.strikes, verdict
    assert any("left" in text for text in verdict.strikes) and not any(t.startswith("no ") for t in verdict.strikes)
    assert abs(verdict.accuracy - calm.accuracy) <= 0.01, (verdict, calm)


def test_nothing_is_left_running_when_something_fails(tmp_path: Path) -> None:
    kept: list[Ground] = []

    def fail() -> None:
        with ground(tmp_path, workers=0, servers=2, rate=None) as place:
            kept.append(place)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(kept[0].running) == 2 and not any(process.is_alive() for process in kept[0].running)


def test_schedules_differ_by_seed_and_only_a_lab_has_cables() -> None:
    drawn = [draw(seed, lab=seed % 2 == 1) for seed in range(40)]
    assert len({tuple(strikes) for strikes in drawn}) == 40
    moves = {"join", "leave"}
    assert {s.kind for strikes in drawn[::2] for s in strikes} == {"kill", "stop", "stop-worker"} | moves
    assert {s.kind for strikes in drawn[1::2] for s in strikes} == {"kill", "stop", "cut"} | moves
