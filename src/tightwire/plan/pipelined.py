"""A stage of a split model as the simulator plays it: its cells of the split's own timetable (`run.pipeline`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Literal

from tightwire.plan.engine import Process
from tightwire.plan.layout import Way
from tightwire.plan.stage_costs import stages_of
from tightwire.plan.stagehand import Stagehand

Pass = tuple[Literal["F", "B"], int, int]  # which way, batch, microbatch


class Stage:
    """One stage, tick by tick."""

    def __init__(self, rank: int, way: Way, stage: Stagehand) -> None:
        self.rank = rank
        self._split = way.recipe.split
        costs = stages_of(way, stage.setting)
        self._cost = costs[rank]
        self._nbytes = {"F": self._cost.out_nbytes, "B": costs[rank - 1].out_nbytes if rank else 0}
        self._waits = {"F": rank > 0, "B": rank < len(costs) - 1}
        self._stage = stage

    def main(self) -> Process:
        """The timetable, without end; a step is over with the last backward pass of a batch."""
        stage = self._stage
        start = stage.engine.now
        for way, batch, piece in self._passes():
            yield from self._pass(way, batch, piece)
            if way == "B" and piece == self._split.microbatches - 1:
                yield stage.busy(self.rank, self._cost.update_s)
                stage.stepped(self.rank, start, batch)
                start = stage.engine.now

    def _passes(self) -> Iterator[Pass]:
        split = self._split
        for tick in count():
            batch, inside = divmod(tick, split.microbatches + split.tail) if split.flush else (0, tick)
            work = split.work(self.rank, inside)
            for way, number in (("F", work.forward), ("B", work.backward)):
                if number is not None and (not split.flush or number < split.microbatches):
                    more, piece = divmod(number, split.microbatches)
                    yield way, batch + more, piece  # type: ignore[misc]

    def _pass(self, way: Literal["F", "B"], batch: int, piece: int) -> Process:
        stage = self._stage
        if self._waits[way]:
            start, key = stage.engine.now, (way, batch, piece, self.rank)
            gate = stage.gate(key)
            gate.needed += 1
            yield gate
            del stage.mail[key]
            stage.note(self.rank, "wait", start, batch)
        start = stage.engine.now
        seconds = self._cost.forward_s if way == "F" else self._cost.backward_s
        yield stage.busy(self.rank, seconds * stage.factor(self.rank, batch))
        stage.computing_s += stage.engine.now - start
        stage.note(self.rank, "compute", start, batch)
        nbytes, to = self._nbytes[way], self.rank + (1 if way == "F" else -1)
        if nbytes:
            stage.tx[self.rank] += nbytes
            stage.rx[to] += nbytes
            stage.network.send(self.rank, to, nbytes, stage.arrive, (way, batch, piece, to))
