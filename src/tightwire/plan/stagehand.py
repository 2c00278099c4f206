"""What all players of a simulation share: the clock, the ports, the mail, and the book of what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tightwire.plan.engine import Busy, Engine, Gate
from tightwire.plan.jobs import Setting
from tightwire.plan.network import Network
from tightwire.plan.trace import Kind, Moment, Span

Delays = Callable[[int, int], float]


@dataclass(frozen=True)
class Failure:
    """A worker dies at a time and is back after a while, with what it had begun to do anew; never, if that is inf."""

    rank: int
    at_s: float
    down_s: float


@dataclass
class Stagehand:
    """Everything but the play."""

    setting: Setting
    engine: Engine
    network: Network
    delays: Delays | None
    failures: Sequence[Failure]
    last: int  # worker-steps after which it is over
    most_spans: int
    quota: int = 2**62  # steps of each worker
    stride: int = 1  # steps of the recipe that are played as one: between two exchanges nothing happens
    mail: dict[object, Gate] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    staleness: Counter[int] = field(default_factory=Counter)
    dropped: int = 0
    computing_s: float = 0.0

    def __post_init__(self) -> None:
        workers, cluster = self.setting.workers, self.setting.cluster
        self.tx, self.rx = [0] * workers, [0] * workers
        self.by_steps = [(0, 0)] * workers  # bytes sent and received in steps that are over
        self.usual_s: list[list[float]] = [[] for _ in range(workers)]  # steps after the first third of a quota
        self._workers, self._alone = workers, cluster.cores is None
        self._sharing = cluster.sharing if cluster.cores is not None else 1
        self._speeds = [cluster.speed_of(rank) for rank in range(workers)]
        self._failures = {f.rank: sorted((g for g in self.failures if g.rank == f.rank), key=lambda g: g.at_s)
                          for f in self.failures}  # fmt: skip

    def busy(self, rank: int, seconds: float) -> float | Busy:
        """Work of a rank, in seconds of the profiled device; who shares no core simply takes that long."""
        if rank >= self._workers:  # a server on a host of its own
            return seconds
        if self._alone:
            return seconds / self._speeds[rank]
        return Busy(rank // self._sharing, seconds / self._speeds[rank])

    def factor(self, rank: int, step: int) -> float:
        """How much longer this step computes than a usual one."""
        return 1.0 if self.delays is None else self.delays(rank, step)

    def note(self, rank: int, kind: Kind, start_s: float, step: int) -> None:
        """Remember that a rank did this until now."""
        if self.engine.now > start_s and len(self.spans) < self.most_spans:
            self.spans.append(Span(rank, kind, start_s, self.engine.now, step))

    def happened(self, rank: int, what: str, step: int, *more: int) -> None:
        """Remember the order of things."""
        if len(self.moments) < self.most_spans:
            self.moments.append(Moment(self.engine.now, rank, " ".join([what, *map(str, more)]), step))

    def stepped(self, rank: int, start_s: float, step: int) -> None:
        """A worker has taken a step."""
        self.step_s.append(self.engine.now - start_s)
        self.ends_s.append(self.engine.now)
        self.by_steps[rank] = (self.tx[rank], self.rx[rank])
        if step >= self.quota // 3:
            self.usual_s[rank].append(self.engine.now - start_s)
        self.happened(rank, "stepped", step)
        if len(self.step_s) >= self.last:
            self.engine.over = True

    def failing(self, rank: int, *, within_s: float) -> Failure | None:
        """A failure of a rank that comes before so long has passed, once."""
        mine = self._failures.get(rank)
        return mine.pop(0) if mine and mine[0].at_s < self.engine.now + within_s else None

    def gate(self, key: object) -> Gate:
        """A gate known by its name; it may be opened before anybody waits at it."""
        gate = self.mail.get(key)
        if gate is None:
            gate = self.mail[key] = Gate(0)
        return gate

    def arrive(self, key: object) -> None:
        """Something that was waited for, or will be, is there."""
        self.engine.open(self.gate(key))
