"""The laws of timetables."""

from __future__ import annotations

from tightwire.algebra.split import Split


def check_all(split: Split, minibatches: int = 7) -> None:
    """Every minibatch passes every stage forward and backward once, and no stage needs what is not there yet."""
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
    for stage, m in cells:
        assert forward[stage, m] <= backward[stage, m]
        if stage > 0:
            assert forward[stage, m] > forward[stage - 1, m], "a forward pass before its input is there"
            assert backward[stage - 1, m] > backward[stage, m], "a backward pass before its error is there"


def _assert_cell(split: Split, stage: int, tick: int, forward: int | None, backward: int | None) -> None:
    """`work` tells the same as `ticks`, which only ends."""
    work = split.work(stage, tick)
    assert forward in (work.forward, None) and backward in (work.backward, None)
