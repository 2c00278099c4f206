"""Pretended computing times: how long each step of each worker takes, drawn by counting.

    seconds(rank, step) = exp(σ·N(0, 1)) · slowdown of the rank

A step of an ordinary worker takes about one pretended second. The same seed, rank and step give the same time, so a run
that is resumed goes on with the times it would have had.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import exp

from tightwire.engines.config import ConfigError

USUAL = "lognormal:0.1"


@dataclass(frozen=True)
class Delays:
    """How long steps take."""

    sigma: float = 0.1
    slowdown: dict[int, float] = field(default_factory=dict)
    seed: int = 0

    def seconds(self, rank: int, step: int) -> float:
        """One step of one worker."""
        dice = random.Random(f"{self.seed} {rank} {step}")
        return exp(self.sigma * dice.gauss(0, 1)) * self.slowdown.get(rank, 1.0)


def parse_delays(delays: str | None, straggler: str | None, seed: int) -> Delays:
    """From ``lognormal:0.5`` and ``2:5x``.

    >>> parse_delays("lognormal:0.5", "2:5x", 0)
    Delays(sigma=0.5, slowdown={2: 5.0}, seed=0)
    """
    kind, _, spread = (delays or USUAL).partition(":")
    try:
        sigma = float(spread)
    except ValueError:
        sigma = -1.0
    if kind != "lognormal" or sigma < 0:
        raise ConfigError(f"delays={delays}: write lognormal:SIGMA, as lognormal:0.5")
    return Delays(sigma, _slowdown(straggler), seed)


def _slowdown(straggler: str | None) -> dict[int, float]:
    if straggler is None:
        return {}
    rank, _, factor = straggler.partition(":")
    try:
        slow, times = int(rank), float(factor.removesuffix("x"))
    except ValueError:
        slow, times = -1, 0.0
    if slow < 0 or times <= 0:
        raise ConfigError(f"straggler={straggler}: write RANK:FACTORx, as 2:5x for rank 2 at a fifth of the speed")
    return {slow: times}
