"""Which of many measured policies to take: not the luckiest, but one that chance cannot tell from it.

    chance = √(e(1 − e) / n)          the standard error of the best policy's error e on n samples
    tied   = {p : error(p) ≤ e + chance}
    taken  = the tied one nearest to home, by Σ (log share − log share at home)²

Home is the best policy that needs no search: uniform, or for single weights one threshold for all layers (`rules`). Of
hundreds of policies that are measured on a few thousand samples, the best is best partly by luck on these very samples,
and after fine-tuning none of that luck is left. What home is not worse than by more than chance says nothing for
leaving it. Breiman, Friedman, Olshen, Stone: Classification and Regression Trees. 1984, section 3.4.3, take
the simplest tree within one standard error for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

from tightwire.compress.search.problem import Problem, Tried, best
from tightwire.compress.search.rules import home


def settle(problem: Problem, tried: Sequence[Tried]) -> Tried:
    """The policy to take; the best one where errors are exact (``samples`` is 0)."""
    top = best(tried)
    if not problem.samples or not 0 < top.error < 1:
        return top
    chance = sqrt(top.error * (1 - top.error) / problem.samples)
    least = top.reward * (1 + chance / top.error)  # rewards are −error, or that times the logarithm of a price
    even = problem.choices(home(problem))

    def distance(one: Tried) -> float:
        mine = problem.choices(one.levels)
        return sum(log(choice.ratio / other.ratio) ** 2 for choice, other in zip(mine, even, strict=True))

    tied = [one for one in tried if one.reward >= least]
    return min(tied, key=lambda one: (distance(one), -one.reward, one.cost))
