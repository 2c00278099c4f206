"""The laws of timetables."""

from __future__ import annotations

from tightwire.algebra.split import Split
from tightwire.splits.timetable import executed


def check_all(split: Split, minibatches: int = 7) -> None:
    """Every law."""
    minibatches = split.microbatches if split.flush else minibatches
    everything_passes_once(split, minibatches)
    nobody_waits_for_ever(split, minibatches)
    weights_are_as_old_as_it_says(split)


def everything_passes_once(split: Split, minibatches: int) -> None:
    """Every minibatch passes every stage forward and then backward, once; `work` tells the same as `ticks`."""
    forward: dict[tuple[int, int], int] = {}
    backward: dict[tuple[int, int], int] = {}
    for tick, works in enumerate(split.ticks(minibatches)):
        assert [work.stage for work in works] == list(range(split.stages))
        for work in works:
            for seen, minibatch in ((forward, work.forward), (backward, work.backward)):
                if minibatch is not None:
                    assert (work.stage, minibatch) not in seen, f"minibatch {minibatch} twice at stage {work.stage}"
                    seen[work.stage, minibatch] = tick
            _assert_cell(split, work.stage, tick, work.forward, work.backward)
    cells = {(stage, m) for stage in range(split.stages) for m in range(minibatches)}
    assert forward.keys() == cells and backward.keys() == cells, "a minibatch does not pass every stage both ways"
    for cell in cells:
        assert forward[cell] <= backward[cell], "a backward pass before its forward pass"


def _assert_cell(split: Split, stage: int, tick: int, forward: int | None, backward: int | None) -> None:
    """`work` tells the same as `ticks`, which only ends."""
    work = split.work(stage, tick)
    assert forward in (work.forward, None) and backward in (work.backward, None)


def nobody_waits_for_ever(split: Split, minibatches: int) -> None:
    """Each stage in its own order, every pass finds its input at some time."""
    passes = executed(split, minibatches)
    assert len(passes) == 2 * split.stages * minibatches, "stages wait for each other for ever"


def weights_are_as_old_as_it_says(split: Split) -> None:
    """A minibatch sees the weights that its own update will find ``delay`` updates further on, once the pipe is full.

    A batch is updated at the end of the call in which its last microbatch came back; a call has as many ticks as a
    batch has microbatches.
    """
    if split.flush:
        assert all(split.delay(stage) == 0 for stage in range(split.stages))
        return
    size = split.microbatches
    calls = 4 * split.stages
    for stage in range(split.stages):
        works = [split.work(stage, tick) for tick in range(size * calls)]
        for tick, work in enumerate(works):
            if work.forward is None or tick // size < 2 * split.stages or work.forward % size:
                continue
            before = works[: tick // size * size]
            made = sum(1 for w in before if w.backward is not None and (w.backward + 1) % size == 0)
            seen = split.version(stage, work.forward)
            seen = made if seen is None else seen
            assert seen <= made, f"stage {stage} would need weights that do not exist yet"
            age = work.forward // size - seen
            assert age == split.delay(stage), (
                f"weights are {age} updates old at stage {stage}, not {split.delay(stage)}"
            )
