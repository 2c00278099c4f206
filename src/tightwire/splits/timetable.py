"""Timetables: who computes which minibatch, when. Pure functions that every schedule of this folder uses.

A timetable fixes the order of the passes at each stage. `executed` plays it: a pass takes one unit of time, and begins
when its stage is free and its input is there. `drawn` shows that as the staircase of the papers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.split import Cut, Split, Work


@dataclass(frozen=True)
class Pass:
    """One forward (F) or backward (B) pass at one stage, and when it began."""

    kind: Literal["F", "B"]
    stage: int
    minibatch: int
    start: int


def check_cut(name: str, stages: int, cut: Cut, *, whole: bool = False) -> None:
    """Refuse numbers that make no stages; ``whole`` says that the schedule cannot deal out the last layer."""
    if stages < 1:
        raise RecipeError(f"{name}(stages={stages}): there is at least one stage")
    if cut.cuts is not None and len(cut.cuts) != stages - 1:
        raise RecipeError(f"{name}(stages={stages}, cuts={cut.cuts}): {stages} stages have {stages - 1} cuts")
    if cut.replicas < 1 or (cut.replicas > 1 and stages == 1):
        raise RecipeError(
            f"{name}(stages={stages}, replicas={cut.replicas}): stages are there once or more; one stage on several "
            "workers is data parallelism, sync-sgd"
        )
    if whole and cut.wide:
        raise RecipeError(
            f"{name}(wide={cut.wide}): only layerwise deals the last layer out over several workers; use it"
        )
    if cut.wide and (stages == 1 or cut.wide < stages - 1):
        raise RecipeError(
            f"{name}(stages={stages}, wide={cut.wide}): the stages before the last one need a worker each, and one at "
            f"least; use wide={max(1, stages - 1)} or more, with 2 stages or more"
        )
    if cut.columns and (len(cut.columns) != cut.wide or min(cut.columns) < 0):
        raise RecipeError(
            f"{name}(wide={cut.wide}, columns={cut.columns}): give each of the {cut.wide} workers a number of columns, "
            "0 or more"
        )


def workers_of(stages: int, cut: Cut) -> int:
    """A worker for each stage; where the last layer is dealt out, its workers, who also keep the other stages."""
    return (cut.wide or stages) * cut.replicas


def columns_of(split: Split, minibatches: int, ticks: int) -> Iterator[tuple[Work, ...]]:
    """The columns of a timetable, without what a stream of so many minibatches does not have."""
    for tick in range(ticks):
        works = (split.work(stage, tick) for stage in range(split.stages))
        yield tuple(Work(w.stage, _within(w.forward, minibatches), _within(w.backward, minibatches)) for w in works)


def _within(minibatch: int | None, minibatches: int) -> int | None:
    return minibatch if minibatch is not None and 0 <= minibatch < minibatches else None


def orders(split: Split, minibatches: int) -> list[list[tuple[Literal["F", "B"], int]]]:
    """The passes of each stage in order."""
    rows: list[list[tuple[Literal["F", "B"], int]]] = [[] for _ in range(split.stages)]
    for works in split.ticks(minibatches):
        for work in works:
            if work.forward is not None:
                rows[work.stage].append(("F", work.forward))
            if work.backward is not None:
                rows[work.stage].append(("B", work.backward))
    return rows


def executed(split: Split, minibatches: int) -> list[Pass]:
    """Every pass with the time it begins, if each takes one unit; fewer than there are if they wait for each other."""
    left = orders(split, minibatches)
    free, done, passes = [0] * split.stages, dict[tuple[str, int, int], int](), list[Pass]()
    moved = True
    while moved:
        moved = False
        for stage, row in enumerate(left):
            while row:
                kind, minibatch = row[0]
                needed = _needs(kind, stage, minibatch, split.stages)
                if any(need not in done for need in needed):
                    break
                start = max([free[stage], *(done[need] for need in needed)])
                free[stage] = done[kind, stage, minibatch] = start + 1
                passes.append(Pass(kind, stage, minibatch, start))
                row.pop(0)
                moved = True
    return passes


def _needs(kind: str, stage: int, minibatch: int, stages: int) -> list[tuple[str, int, int]]:
    if kind == "F":
        return [("F", stage - 1, minibatch)] if stage else []
    behind = [("B", stage + 1, minibatch)] if stage < stages - 1 else []
    return [("F", stage, minibatch), *behind]


def drawn(split: Split, minibatches: int, *, width: int = 4) -> str:
    """The staircase: a line a stage, a column a unit of time.

    >>> from tightwire.splits.flush import gpipe
    >>> print(drawn(gpipe(2, microbatches=2), 2))
    F0  F1          B0  B1
        F0  F1  B0  B1
    """
    passes = executed(split, minibatches)
    end = max(done.start for done in passes) + 1
    rows = [[""] * end for _ in range(split.stages)]
    for done in passes:
        rows[done.stage][done.start] = f"{done.kind}{done.minibatch}"
    return "\n".join("".join(cell.ljust(width) for cell in row).rstrip() for row in rows)


def idle(split: Split, minibatches: int) -> float:
    """The share of the time in which stages wait, from the first pass to the last.

    >>> from tightwire.splits.flush import gpipe
    >>> round(idle(gpipe(4, microbatches=8), 8), 3)
    0.273
    """
    passes = executed(split, minibatches)
    return 1 - len(passes) / (split.stages * (max(done.start for done in passes) + 1))


def alive(split: Split, minibatches: int) -> list[int]:
    """The most minibatches that each stage keeps between forward and backward pass."""
    most = []
    for row in orders(split, minibatches):
        now = peak = 0
        for kind, _ in row:
            now += 1 if kind == "F" else -1
            peak = max(peak, now)
        most.append(peak)
    return most
