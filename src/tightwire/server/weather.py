"""What goes wrong in a simulated world: drawn from a seed, so that it goes wrong again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

Kinds = tuple[tuple[str, ...], ...]
FAULTS: Kinds = (
    ("crash",),
    ("pause",),
    ("cut",),
    ("crash", "pause", "cut"),
    ("crash", "leave", "join"),
    ("crash", "worker"),
)
MOVES: Kinds = tuple(("leave", "join", *more) for more in ((), ("pause",), ("cut",), ("crash", "worker")))


class Fault(NamedTuple):
    """At a time, to a server (or between two), for a while."""

    at_ms: float
    kind: str  # crash | pause | cut | leave | join | worker
    place: float  # picks whom, among those to whom it may happen then
    for_ms: float


@dataclass
class Weather:
    """The network's manners, and a list of faults; all of it ends at ``calm_ms``."""

    loss: float
    doubling: float
    slowness: float
    calm_ms: float
    faults: list[Fault] = field(default_factory=list)

    @classmethod
    def draw(cls, rng: random.Random, calm_ms: float, faults: Kinds = FAULTS) -> Weather:
        """Some seeds are mild and some are not."""
        kinds = rng.choice(faults)
        made = cls(
            loss=rng.choice((0.0, 0.02, 0.1)),
            doubling=rng.choice((0.0, 0.05)),
            slowness=rng.choice((0.0, 0.05)),
            calm_ms=calm_ms,
        )
        for _ in range(rng.randint(1, 5)):
            at_ms = rng.random() * calm_ms * 0.9
            made.faults.append(Fault(at_ms, rng.choice(kinds), rng.random(), 20.0 + rng.random() * 250.0))
        return made

    def delays_ms(self, rng: random.Random, now_ms: float) -> tuple[float, ...]:
        """When the copies of a message sent now arrive: none if it is lost, two if it is doubled."""
        chance = rng.random
        delay_ms = 1.0 + 4.0 * chance()
        if now_ms >= self.calm_ms:
            return (delay_ms,)
        if self.loss and chance() < self.loss:
            return ()
        if self.slowness and chance() < self.slowness:
            delay_ms *= 30.0
        if self.doubling and chance() < self.doubling:
            return (delay_ms, delay_ms + 40.0 * chance())
        return (delay_ms,)
