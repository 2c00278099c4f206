"""A latency that is met: what was found is cut and timed beside the whole network, and the search aimed anew.

    search → time → off by more than it may: correct the aim, search again, three times at most → fit what is nearest

Times are those of the whole network when the search began: a machine that has become slower since slows down both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tightwire.compress.search.build import Built, aimed_at
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.fit import AIMED, NEAR, Timed, fit, nearest
from tightwire.compress.search.latency import aim
from tightwire.compress.search.problem import Tried
from tightwire.compress.search.timing import in_turns_ns
from tightwire.engines.search_methods import Searched, winner

_AIMS = 3  # corrections


@dataclass(frozen=True, eq=False)
class Met:
    """The problem as it was aimed last, what was searched in it, and the policy that is nearest below the budget."""

    built: Built
    searched: dict[str, Searched]
    method: str
    tried: Tried
    times: dict[str, float]


def meet(
    built: Built,
    searched: dict[str, Searched],
    again: Callable[[Built, int], dict[str, Searched]],
    *,
    budget_ns: float,
) -> Met:
    """Search again until what is found takes the budget, nearly; then change it until it does."""
    time_of, cost = _stopwatch(built), built.problem.cost
    known = [(cost.most, built.whole)]  # sums of layers, and what whole networks took
    attempts: dict[Timed, tuple[Built, dict[str, Searched]]] = {}
    while True:
        _, tried = winner(built.problem, searched)
        timed = tried, time_of(tried.levels)
        attempts.setdefault(timed, (built, searched))
        known.append((tried.cost, timed[1]))
        if len(known) > _AIMS + 1 or tried.cost >= cost.most or NEAR * budget_ns <= timed[1] <= budget_ns:
            break
        target = max(np.floor(aim(AIMED * budget_ns, *zip(*known, strict=True))), cost.least)
        built = aimed_at(built, target)
        searched = again(built, len(known) - 1)
    closest = nearest(list(attempts), budget_ns)
    built, searched = attempts[closest]
    tried, measured_ns = fit(built.problem, closest, time_of, budget_ns)
    times = {"budget_ns": budget_ns, "measured_ns": measured_ns, "whole_ns": built.whole}
    target = max(built.problem.clip.target, tried.cost)
    return Met(aimed_at(built, target), searched, winner(built.problem, searched)[0], tried, times)


def _stopwatch(built: Built) -> Callable[[Sequence[int]], float]:
    scorer, example = built.scorer, built.example
    assert isinstance(scorer, Channels)
    whole = scorer.cut([int(level) for level in built.problem.cost.dearest], example)

    def time_of(levels: Sequence[int]) -> float:
        cut_ns, whole_ns = in_turns_ns([scorer.cut(levels, example), whole], built.batch)
        return built.whole * cut_ns / whole_ns

    return time_of
