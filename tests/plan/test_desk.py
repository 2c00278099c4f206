"""A desk decides what the shard decides: the same answers to the same events, whatever the schedule."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tightwire.algebra.schedule import Meta, Schedule
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import START
from tightwire.codecs.dense import dense
from tightwire.plan.desk import Desk
from tightwire.rules.average import average
from tightwire.server.events import Center, Leave, Push
from tightwire.server.shard import Shard
from tightwire.testing.found import found


class Still:
    """A mover that moves nothing."""

    def step(self, center: Mapping[str, Bucket], total: Any, rates: tuple[float, ...], idle: frozenset[str]) -> None:
        """Nothing."""

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing."""


def shard_of(schedule: Schedule, workers: int) -> Shard:
    center = {"w": Bucket.zeros(Spec.pack([("w", (1,))]))}
    clocks = dict.fromkeys(range(workers), 0)
    return Shard(center, average(), Still(), schedule, dense(), dense(), START, clocks=clocks)


@pytest.mark.parametrize("schedule", found("schedules"), ids=str)
def test_a_desk_answers_as_a_shard(schedule: Schedule) -> None:
    @settings(max_examples=15)
    @given(st.integers(1, 4), st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 40))
    def law(workers: int, turns: list[int], leaves_after: int) -> None:
        shard, desk = shard_of(schedule, workers), Desk(schedule, dict.fromkeys(range(workers), 0))
        clocks, versions, waiting = [0] * workers, [0] * workers, [False] * workers
        for turn, who in enumerate(turns):
            worker = who % workers
            if waiting[worker] or worker not in shard.clocks:
                continue
            if turn == leaves_after and workers > 1:
                replies, answers = shard.handle(Leave(worker)), desk.leave(worker)
                replies = [entry for entry in replies if isinstance(entry[1], Center)]
            else:
                while not schedule.due(clocks[worker]).push and clocks[worker] < 100:
                    clocks[worker] += 1  # steps without an exchange
                meta = Meta(worker, clocks[worker], versions[worker])
                pull = schedule.due(clocks[worker]).pull
                push = Push(worker, clocks[worker], meta, {"w": torch.zeros(1)}, (), pull)
                waiting[worker] = True
                clocks[worker] += 1
                replies, answers = shard.handle(push), desk.push(meta, pull=pull)
            said = [(to, isinstance(reply, Center), reply.dropped) for to, reply in replies]  # type: ignore[union-attr]
            assert [(answer.worker, answer.center, answer.dropped) for answer in answers] == said
            for to, center, _ in said:
                waiting[to] = False
                if center:
                    versions[to] = shard.version
        assert (desk.version, desk.staleness, desk.dropped) == (shard.version, shard.staleness, shard.dropped)
        assert desk.clocks == shard.clocks

    law()
