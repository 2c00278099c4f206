"""Slow steps, drawn by counting: how long each step of each worker is held up.

    seconds(rank, step) = unit · exp(σ·N(0, 1)) · slowdown of the rank

In one process the time is pretended: whoever is earliest runs next, and a usual step takes one pretended second. Real
processes really sleep, before the forward pass: after the weights were read, before any gradient is there to be sent.
There the unit is 20 ms, and what the step computes comes on top. The same seed, rank and step give the same time, so a
run that is resumed goes on with the times it would have had.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from math import exp

from tightwire.engines.config import ConfigError
from tightwire.run.together import now, spend

USUAL = "lognormal:0.1"
PRETENDED_S, SLEPT_S = 1.0, 0.02  # a usual step
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Delays:
    """How long steps take, in units of a usual one; ``unit_s`` None leaves the unit to where the run is."""

    sigma: float = 0.1
    slowdown: dict[int, float] = field(default_factory=dict)
    seed: int = 0
    unit_s: float | None = None

    def factor(self, rank: int, step: int) -> float:
        """One step of one worker."""
        dice = random.Random(f"{self.seed} {rank} {step}")
        return exp(self.sigma * dice.gauss(0, 1)) * self.slowdown.get(rank, 1.0)

    def hold_up(self, rank: int, step: int, *, asked: bool) -> None:
        """Pretend, or sleep where that was ``asked`` for."""
        factor = self.factor(rank, step)
        if now() is not None:
            spend(factor * (PRETENDED_S if self.unit_s is None else self.unit_s))
        elif asked:
            time.sleep(factor * (SLEPT_S if self.unit_s is None else self.unit_s))


def parse_delays(delays: str | None, straggler: str | None, seed: int) -> Delays:
    """From ``lognormal:0.5``, with a unit ``lognormal:0.5:20ms``, and ``2:5x``.

    >>> parse_delays("lognormal:0.5", "2:5x", 0)
    Delays(sigma=0.5, slowdown={2: 5.0}, seed=0, unit_s=None)
    >>> parse_delays("lognormal:0:20ms", None, 0).unit_s
    0.02
    """
    kind, _, rest = (delays or USUAL).partition(":")
    spread, _, unit = rest.partition(":")
    try:
        sigma = float(spread)
        unit_s = _seconds(unit) if unit else None
    except ValueError:
        sigma, unit_s = -1.0, None
    if kind != "lognormal" or not 0 <= sigma < 10:
        raise ConfigError(f"delays={delays}: write lognormal:SIGMA or lognormal:SIGMA:TIME, as lognormal:0.5:20ms")
    return Delays(sigma, _slowdown(straggler), seed, unit_s)


def _seconds(text: str) -> float:
    number = text.rstrip("mus")
    seconds = float(number) * _UNITS.get(text[len(number) :], -1.0)
    if not 0 <= seconds < 3600:
        raise ValueError(text)
    return seconds


def _slowdown(straggler: str | None) -> dict[int, float]:
    if straggler is None:
        return {}
    rank, _, factor = straggler.partition(":")
    try:
        slow, times = int(rank), float(factor.removesuffix("x"))
    except ValueError:
        slow, times = -1, 0.0
    if slow < 0 or not 0 < times < 1e6:
        raise ConfigError(f"straggler={straggler}: write RANK:FACTORx, as 2:5x for rank 2 at a fifth of the speed")
    return {slow: times}
