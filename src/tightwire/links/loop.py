"""P workers in one process, deterministic, without spawning anything.

Each worker is a thread, but only the one that holds the baton runs. It passes the baton on when it must wait for a
message, and whenever it asks a server, so interleavings are those of real workers; an `Order` chooses who is next:

    worker 0   ──run──▶ needs rank 1's message ─┐                  ┌─▶ it is there: go on
    worker 1                                    └─run──▶ sends ────┘
    (baton)        0                                 1                  0

Workers may also pretend to take time (`LoopLink.spend`): each has a clock of its own, which a message or a reply
carries forward, and under `Earliest` whoever is earliest runs next. So the order of a world with fast and slow workers,
and how long it would have taken, are computed without waiting.

torch's global random state travels with the baton, so a worker draws what it would draw in a process of its own.
If every worker waits, nothing can ever arrive: that is reported at once as a `Deadlock` that says who waits for whom.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from tightwire.algebra.errors import Deadlock, PeerLost
from tightwire.algebra.link import Carried, Machine, Pending
from tightwire.algebra.world import World
from tightwire.links.orders import Earliest, Order, in_turn, shuffled

T = TypeVar("T")
__all__ = ["Earliest", "LoopLink", "LoopWorld", "Order", "in_turn", "shuffled"]


@dataclass
class _Seat:
    """One worker's place in the loop."""

    turn: threading.Event = field(default_factory=threading.Event)
    can_go: Callable[[], bool] | None = None
    waits_for: str = ""
    done: bool = False
    rng: Any = None


class LoopWorld:
    """The in-process world: seats, mailboxes and hosted machines.

    >>> LoopWorld(3).run(lambda link: link.world.rank)
    [0, 1, 2]
    """

    def __init__(self, size: int, *, hosts: tuple[int, ...] = (), order: Order = in_turn) -> None:
        self.size = size
        self.hosts = hosts
        self.mail: defaultdict[tuple[int, int, int], deque[_Letter]] = defaultdict(deque)
        self.shared: dict[str, Tensor] = {}
        self.times = [0.0] * size
        self.machines: dict[str, Machine] = {}
        self.counts: Counter[str] = Counter()
        self.replies: dict[tuple[str, int], deque[Any]] = defaultdict(deque)
        self._order = order
        if isinstance(order, Earliest):
            order.times = self.times
        self._seats = [_Seat() for _ in range(size)]
        self._failure: tuple[int, BaseException] | None = None

    def run(self, work: Callable[[LoopLink], T]) -> list[T]:
        """Run ``work`` once for each worker, to the end; raise the first worker's error."""
        results: list[Any] = [None] * self.size
        outside = _rng_state()
        for seat in self._seats:
            seat.rng = outside
        threads = [threading.Thread(target=self._live, args=(rank, work, results)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        self._seats[0].turn.set()
        for thread in threads:
            thread.join()
        _set_rng_state(outside)
        if self._failure is not None:
            raise self._failure[1]
        return results

    def _live(self, rank: int, work: Callable[[LoopLink], T], results: list[Any]) -> None:
        seat = self._seats[rank]
        seat.turn.wait()
        _set_rng_state(seat.rng)
        try:
            if self._failure is None:
                results[rank] = work(LoopLink(self, rank))
        except BaseException as error:  # carried to the caller of run
            if self._failure is None:
                self._failure = (rank, error)
        finally:
            seat.done = True
            self._hand_over(rank)

    def wait_until(self, rank: int, can_go: Callable[[], bool], waits_for: str) -> None:
        """Let others run until ``can_go``."""
        while not can_go():
            self.pause(rank, can_go, waits_for)

    def pause(self, rank: int, can_go: Callable[[], bool] | None = None, waits_for: str = "") -> None:
        """Let somebody else run; return with the baton."""
        seat = self._seats[rank]
        seat.can_go, seat.waits_for, seat.rng = can_go, waits_for, _rng_state()
        seat.turn.clear()
        self._hand_over(rank)
        seat.turn.wait()
        seat.can_go = None
        _set_rng_state(seat.rng)
        if self._failure is not None:
            who, error = self._failure
            if isinstance(error, Deadlock):
                raise error
            raise PeerLost(f"rank {who} failed while rank {rank} was waiting{seat.waits_for}: {error}")

    def _hand_over(self, rank: int) -> None:
        left = [r for r, seat in enumerate(self._seats) if not seat.done]
        able = [r for r in left if (go := self._seats[r].can_go) is None or go()]
        if not left:
            return
        if not able or self._failure is not None:
            if self._failure is None:
                waits = "; ".join(f"rank {r} waits{self._seats[r].waits_for}" for r in left)
                ended = [r for r, seat in enumerate(self._seats) if seat.done]
                gone = f" (ranks {ended} have ended)" if ended else ""
                self._failure = (rank, Deadlock(f"nobody can go on: {waits}{gone}"))
            able = left
        self._seats[self._order(able, rank)].turn.set()


def _rng_state() -> tuple[Tensor, list[Tensor]]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), cuda


def _set_rng_state(state: tuple[Tensor, list[Tensor]]) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


class LoopLink:
    """One worker's connection: link and port at once."""

    exact = False
    wire_device = None

    def __init__(self, loop: LoopWorld, rank: int) -> None:
        self.world = World(rank, loop.size, hosts=loop.hosts)
        self._loop = loop
        self._jobs: deque[_Job] = deque()

    @property
    def port(self) -> LoopLink:
        """The link itself."""
        return self

    @property
    def near(self) -> LoopLink:
        """The link itself."""
        return self

    framed = near

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        """Put a copy into the receiver's mailbox."""
        self._loop.mail[self.world.rank, to, tag].append(_Letter(tensor.clone(), self.now, _written(tensor)))
        return _Arrived()

    def receive(self, tensor: Tensor, source: int, tag: int) -> Pending:
        """Wait at the mailbox."""
        return _Mail(self._loop, source, self.world.rank, tag, tensor)

    def submit(self, job: Callable[[], None], *, first: Callable[[], None] | None = None) -> Pending:
        """Queue a job; all of it runs, in order, when somebody waits for it."""
        self._jobs.append(_Job(self._jobs, (job,) if first is None else (first, job)))
        return self._jobs[-1]

    def prepare(self, members: Sequence[int]) -> None:
        """Nothing to prepare."""

    def native(self, name: str, tensor: Tensor, members: Sequence[int]) -> Pending | None:
        """There are no native collectives here."""
        return None

    def host(self, name: str, make: Callable[[], Machine], *, on: int = 0) -> None:
        """Keep the machine in this process; the first caller makes it."""
        if name not in self._loop.machines:
            self._loop.machines[name] = make()

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """Hand the event to the machine; others run before the reply is taken."""
        loop, rank = self._loop, self.world.rank
        if torch.cuda.is_initialized():  # a machine works for many workers, each on a stream of its own
            torch.cuda.synchronize()
        for worker, reply in loop.machines[name].handle(event):
            loop.replies[name, worker].append(reply)
            loop.times[worker] = max(loop.times[worker], self.now)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        loop.pause(rank, lambda: bool(loop.replies[name, rank]), f" for a reply of {name}")
        return loop.replies[name, rank].popleft()

    def afar(self, name: str) -> bool:
        """All machines are here."""
        return False

    def count_with(self, carried: Carried) -> bool:
        """There are no sockets in one process."""
        return False

    def faults(self) -> dict[str, Any]:
        """There is no server between processes."""
        return {}

    def share(self, name: str, numel: int, dtype: torch.dtype) -> Tensor:
        """All workers are in one process anyway."""
        return self._loop.shared.setdefault(name, torch.zeros(numel, dtype=dtype))

    @property
    def now(self) -> float:
        """This worker's pretended time, in seconds."""
        return self._loop.times[self.world.rank]

    def spend(self, seconds: float) -> None:
        """Pretend that this worker computed for so long; others run meanwhile."""
        self._loop.times[self.world.rank] += seconds
        self._loop.pause(self.world.rank)

    def count(self, name: str, amount: int) -> int:
        """A number in this process."""
        self._loop.counts[name] += amount
        return self._loop.counts[name]

    def close(self, *, abandon: bool = False) -> None:
        """Drop what nobody waited for."""
        self._jobs.clear()


@dataclass(frozen=True)
class _Letter:
    """A message. On a GPU workers have streams of their own, so a reader must wait until it is really written."""

    message: Tensor
    sent_at: float
    written: torch.cuda.Event | None

    def read(self, into: Tensor) -> None:
        if self.written is not None:
            here = torch.cuda.current_stream(self.message.device)
            here.wait_event(self.written)
            self.message.record_stream(here)  # its memory is not used again before this copy is done
        into[: self.message.numel()].copy_(self.message)


def _written(tensor: Tensor) -> torch.cuda.Event | None:
    return torch.cuda.current_stream(tensor.device).record_event() if tensor.is_cuda else None


class _Arrived:
    def wait(self, timeout_s: float) -> None:
        """It is in the mailbox."""


@dataclass
class _Mail:
    loop: LoopWorld
    source: int
    me: int
    tag: int
    into: Tensor

    def wait(self, timeout_s: float) -> None:
        """Take the oldest message; a world that waits for ever is a `Deadlock`, so no clock is needed."""
        box = self.loop.mail[self.source, self.me, self.tag]
        self.loop.wait_until(self.me, lambda: bool(box), f" for a message from rank {self.source}")
        letter = box.popleft()
        self.loop.times[self.me] = max(self.loop.times[self.me], letter.sent_at)
        letter.read(self.into)


@dataclass
class _Job:
    queue: deque[_Job]
    parts: Sequence[Callable[[], None]]
    done: bool = False

    def wait(self, timeout_s: float) -> None:
        """Run everything queued up to and including this job."""
        while not self.done:
            first = self.queue.popleft()
            first.done = True
            for part in first.parts:
                part()
