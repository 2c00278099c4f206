"""What a simulation leaves: who did what when, how long steps took, how old contributions were, bytes by port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["compute", "encode", "send", "wait", "decode", "update", "serve", "down"]


@dataclass(frozen=True)
class Span:
    """One rank did one thing for a while. Shards of a server are ranks −1, −2, …"""

    rank: int
    kind: Kind
    start_s: float
    end_s: float
    step: int


@dataclass(frozen=True)
class Moment:
    """Something happened: a worker stepped, a message or contribution arrived. In the order of its happening."""

    time_s: float
    rank: int
    what: str
    step: int


@dataclass(frozen=True)
class Asks:
    """What one contribution to a server and one centre weigh."""

    up_nbytes: int
    down_nbytes: int


@dataclass(frozen=True)
class Trace:
    """The end of a simulation."""

    recipe: str
    workers: int
    seconds: float
    step_s: tuple[float, ...]  # of every worker-step, in the order of their ends
    ends_s: tuple[float, ...]  # when each of them ended
    utilisation: float  # share of the workers' time in which they compute
    staleness: dict[int, int]
    dropped: int
    tx_nbytes: tuple[int, ...]  # by rank
    rx_nbytes: tuple[int, ...]
    port_nbytes: dict[str, int]
    spans: tuple[Span, ...]
    moments: tuple[Moment, ...]
    asks: tuple[Asks, ...] = ()
    usual_s: tuple[float, ...] = ()  # each worker's mean step, if all took equally many

    @property
    def mean_step_s(self) -> float:
        """Time of a worker-step."""
        return sum(self.step_s) / max(1, len(self.step_s))

    @property
    def steady_step_s(self) -> float:
        """Time of a worker-step in the second half, when the beginning is forgotten."""
        half = len(self.ends_s) // 2 // self.workers * self.workers
        if half < self.workers:
            return self.mean_step_s
        steps = (len(self.ends_s) - half) / self.workers
        return (self.ends_s[-1] - self.ends_s[half - 1]) / steps

    @property
    def mean_staleness(self) -> float:
        """Updates between a contribution's reading and its application."""
        return sum(age * n for age, n in self.staleness.items()) / max(1, sum(self.staleness.values()))

    def quantile(self, q: float) -> float:
        """The step time that a share ``q`` of all worker-steps stays below."""
        ordered = sorted(self.step_s)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    def samples_per_s(self, batch: int) -> float:
        """Samples of all workers in a second."""
        return batch * len(self.step_s) / self.seconds if self.seconds > 0 else float("inf")
