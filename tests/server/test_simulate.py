"""Two thousand simulated worlds go well; with a mistake made on purpose one of them does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.server.shards import DENSE, SUM
from tightwire.algebra.schedule import Meta
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server import memo
from tightwire.server.bugs import BUGS
from tightwire.server.events import Push
from tightwire.server.movers import RuleMover
from tightwire.server.shard import Shard
from tightwire.server.simulate import first_failure, main
from tightwire.server.simulated import Process, World
from tightwire.server.tally import Mark

SEEDS = 2000
SHARE, WORKERS = 6, 4


def test_nothing_is_lost_nothing_twice_and_nobody_hangs(request: pytest.FixtureRequest) -> None:
    seeds = 10 * SEEDS if request.config.getoption("--slow") else SEEDS
    assert first_failure(range(seeds)) is None


@pytest.mark.parametrize("bug", BUGS)
def test_a_mistake_made_on_purpose_is_found(bug: str) -> None:
    found = first_failure(range(SEEDS), BUGS[bug])
    assert found is not None
    assert World(found[0], BUGS[bug]).run() == found[1], "a failing seed fails again, in the same way"
    assert World(found[0]).run() is None, "without the mistake it does not"


def test_worlds_with_one_copy_move_it_and_who_leaves_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = range(7, SEEDS, 8)
    worlds = [World(seed) for seed in alone]
    assert all(world.run() is None and world.views.replicas == 1 for world in worlds)
    assert sum(view.number > 2 for world in worlds for view in world.views.views.values()) > len(alone) / 4

    for seed in (49391, 93199):  # who leaves hears of a view without it that never stands: it must still be there then
        assert World(seed).run() is None, seed

    def end_at_once(world: World, process: Process) -> None:
        process.runs = False

    monkeypatch.setattr(World, "_depart", end_at_once)
    assert first_failure(alone) is not None, "nobody has what it kept"


def test_a_failing_seed_is_printed_and_can_be_seen_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2000", "--bug", "acknowledge-first"]) == 1
    said = capsys.readouterr().err
    command = said.partition("again: python -m tightwire.server.simulate ")[2].split()
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "──▶" in shown and shown.splitlines()[-1] == said.splitlines()[0]
    assert main(["--seeds", "3"]) == 0


class OneHot:
    """Real shards: contribution n of worker w moves one number of the centre, its own, by one."""

    spec = Spec.pack([("w", (WORKERS * SHARE,))])

    def __init__(self, together: tuple[int, ...]) -> None:
        self._workers = together
        self._schedule = every_step() if together else asynchronous()

    def make(self) -> Shard:
        mover = RuleMover(SUM, {"all": SUM.init(self.spec)}, At())
        clocks = dict.fromkeys(self._workers, 0)
        return Shard({"all": Bucket.zeros(self.spec)}, SUM, mover, self._schedule, DENSE, DENSE, At(), clocks=clocks)

    def event(self, mark: Mark) -> Push:
        one = Bucket.zeros(self.spec)
        one.flat[mark.worker * SHARE + mark.number] = -1.0
        return Push(mark.worker, mark.number, Meta(mark.worker, mark.number), {"all": one.flat})

    def copy(self, machine: Shard) -> Any:
        return memo.everything_of(machine)

    def revive(self, state: Any) -> Shard:
        made = self.make()
        memo.restore_everything(made, state)
        return made

    def applied(self, machine: Shard) -> Mapping[Mark, int]:
        flat = machine.center["all"].flat.tolist()
        held = [held.meta for held in machine.held]
        marks = {Mark(i // SHARE, i % SHARE): int(times) for i, times in enumerate(flat)}
        for meta in held:
            marks[Mark(meta.worker, meta.clock)] += 1
        return marks


def test_the_same_holds_with_real_shards() -> None:
    for seed in range(60):
        assert World(seed, workload=OneHot, share=SHARE).run() is None, f"seed {seed}"
