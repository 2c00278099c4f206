"""Which of many measured policies to take: not the luckiest, but one that chance cannot tell from it.

    chance = √(e(1 − e) / n)          the standard error of the best policy's error e on n samples; at least 1/n
    tied   = {p : error(p) ≤ e + chance}
    taken  = the tied one nearest to home, by Σ (log share − log share at home)²

Home is the best policy that needs no search: uniform, one threshold for single weights, or for channels the least harm
that is foreseen (`rules`). Of hundreds of policies that are measured on a few thousand samples, the best is best partly
by luck on these very samples, and after fine-tuning none of that luck is left. What home is not worse than by more than
chance says nothing for leaving it; nor is it a reason to keep a tenth, where half was asked for, that none of a few
hundred samples is wrong.
Breiman, Friedman, Olshen, Stone: Classification and Regression Trees. 1984, section 3.4.3, take the simplest tree
within one standard error for the same reason.

Where rewards weigh a price, the best is taken. Without a budget home is the whole network, and the logarithm of a price
falls by less than chance when half the network goes: all that was won would be given back.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

from tightwire.compress.search.problem import Problem, Tried, best
from tightwire.compress.search.rules import home

_ROUNDING = 1e-9  # of errors, which are whole numbers of samples


def settle(problem: Problem, tried: Sequence[Tried]) -> Tried:
    """The policy to take; the best one where errors are exact (``samples`` is 0), or weighed by a price."""
    top = best(tried)
    if not problem.samples or problem.price is not None:
        return top
    chance = max(sqrt(top.error * (1 - top.error) / problem.samples), 1 / problem.samples)
    least = top.reward - chance - _ROUNDING
    even = problem.choices(home(problem))

    def distance(one: Tried) -> float:
        mine = problem.choices(one.levels)
        return sum(log(choice.ratio / other.ratio) ** 2 for choice, other in zip(mine, even, strict=True))

    tied = [one for one in tried if one.reward >= least]
    return min(tied, key=lambda one: (distance(one), -one.reward, one.cost))
