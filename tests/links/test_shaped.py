"""The link in user space: the time that bytes would take, by a clock that is advanced by hand; once by a real one."""

import itertools
import random
from collections import defaultdict, deque
from dataclasses import dataclass, field
from time import monotonic

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.worlds import processes
from tightwire.algebra.errors import JoinError, LinkError, PeerTimeout
from tightwire.algebra.link import Pending
from tightwire.exchanges import graphs
from tightwire.links.loop import LoopLink, LoopWorld
from tightwire.links.rounds import Route, reduce_
from tightwire.links.shaped import Pace, Pipe, ShapedLink, ShapedPort
from tightwire.links.torchdist import TorchDistLink

SECOND = torch.zeros(1000, dtype=torch.uint8)  # 8000 bits: one second at the rate of these tests
Mail = defaultdict[tuple[int, int, int], deque[Tensor]]


@dataclass
class Clock:
    now: float = 100.0

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def pace(self, latency_s: float = 0.0) -> Pace:
        return Pace(8000, latency_s, clock=lambda: self.now, sleep=self.sleep)


@dataclass
class Here:
    """Has arrived, or is taken from the mailbox."""

    box: deque[Tensor] = field(default_factory=deque)
    into: Tensor | None = None

    def wait(self, timeout_s: float) -> None:
        if self.into is not None:
            message = self.box.popleft()
            self.into[: message.numel()].copy_(message)


@dataclass
class Instant:
    """A port that needs no time at all."""

    me: int
    mail: Mail
    exact: bool = False

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        self.mail[self.me, to, tag].append(tensor.clone())
        return Here()

    def receive(self, tensor: Tensor, source: int, tag: int) -> Pending:
        return Here(self.mail[source, self.me, tag], tensor)


def ports(size: int, pace: Pace) -> list[ShapedPort]:
    mail: Mail = defaultdict(deque)
    return [ShapedPort(Instant(rank, mail), pace) for rank in range(size)]


def test_sender_and_receiver_wait_for_the_last_byte() -> None:
    clock = Clock()
    a, b = ports(2, clock.pace(latency_s=0.25))
    into = torch.ones(1000, dtype=torch.uint8)
    sending, receiving = a.send(SECOND, 1, 0), b.receive(into, 0, 0)
    sending.wait(10)
    assert clock.now == 101
    receiving.wait(10)
    assert clock.now == 101.25
    assert into.eq(SECOND).all()
    receiving.wait(10)
    assert clock.now == 101.25, "waiting again costs nothing"


def test_both_directions_at_once() -> None:
    clock = Clock()
    a, b = ports(2, clock.pace())
    waits = [
        a.send(SECOND, 1, 0),
        b.send(SECOND, 0, 0),
        a.receive(SECOND.clone(), 1, 0),
        b.receive(SECOND.clone(), 0, 0),
    ]
    for pending in waits:
        pending.wait(10)
    assert clock.now == 101


def test_one_to_many_and_many_to_one_queue() -> None:
    for pairs in ([(0, 1), (0, 2), (0, 3)], [(1, 0), (2, 0), (3, 0)]):
        clock = Clock()
        everybody = ports(4, clock.pace())
        ends = []
        for source, to in pairs:
            everybody[source].send(SECOND, to, 0)
        for source, to in pairs:
            everybody[to].receive(SECOND.clone(), source, 0).wait(10)
            ends.append(clock.now)
        assert ends == [101, 102, 103]


def test_a_late_wait_costs_nothing_more() -> None:
    clock = Clock()
    a, b = ports(2, clock.pace())
    sending = a.send(SECOND, 1, 0)
    receiving = b.receive(SECOND.clone(), 0, 0)
    clock.now += 5  # both compute meanwhile
    sending.wait(10)
    receiving.wait(10)
    assert clock.now == 105


def test_a_straggler_does_not_delay_what_came_before_it() -> None:
    clock = Clock()
    a, b, c = ports(3, clock.pace())
    a.send(SECOND, 2, 0)
    clock.now += 5
    b.send(SECOND, 2, 0)
    c.receive(SECOND.clone(), 1, 0).wait(10)
    assert clock.now == 106
    c.receive(SECOND.clone(), 0, 0).wait(10)
    assert clock.now == 106, "the first message came in while the second had not even left"


def test_a_short_message_in_a_long_buffer_takes_its_own_time() -> None:
    clock = Clock()
    a, b = ports(2, clock.pace())
    a.send(SECOND, 1, 0)
    b.receive(torch.zeros(50_000, dtype=torch.uint8), 0, 0).wait(10)
    assert clock.now == 101


def test_longer_than_allowed_is_said_at_once() -> None:
    clock = Clock()
    a, b = ports(2, clock.pace())
    pending = a.send(SECOND.repeat(60), 1, 0)
    with pytest.raises(PeerTimeout, match=r"60000 bytes to rank 1 takes another 60 s on a link of 8000 bit/s.*10 s"):
        pending.wait(10)
    with pytest.raises(PeerTimeout, match="from rank 0"):
        b.receive(SECOND.repeat(60), 0, 0).wait(10)
    assert clock.now == 100


def test_another_machines_clock_is_refused() -> None:
    clock, later = Clock(), Clock(5000.0)
    mail: Mail = defaultdict(deque)
    a, b = ShapedPort(Instant(0, mail), later.pace()), ShapedPort(Instant(1, mail), clock.pace())
    a.send(SECOND, 1, 0)
    with pytest.raises(LinkError, match="one machine only"):
        b.receive(SECOND.clone(), 0, 0).wait(10)


@pytest.mark.parametrize(("rate", "latency"), [(0, 0), (-1, 0), (float("nan"), 0), (1, -1)])
def test_nonsense_is_refused(rate: float, latency: float) -> None:
    with pytest.raises(JoinError, match="must be positive"):
        Pace(rate, latency)


messages = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=12)


@given(messages, st.randoms(use_true_random=False))
def test_a_pipe_carries_no_faster_than_its_rate_in_any_order(sent: list[tuple[int, int]], dice: random.Random) -> None:
    in_order, shuffled = Pipe(), Pipe()
    finishes = [in_order.carry(start, duration) for start, duration in sorted(sent)]
    for (start, duration), finish in zip(sorted(sent), finishes, strict=True):
        assert finish >= start + duration
    for first, last in itertools.combinations(range(len(sent)), 2):
        work = sum(duration for _, duration in sorted(sent)[first : last + 1])
        assert finishes[last] >= sorted(sent)[first][0] + work
    mixed = list(sent)
    dice.shuffle(mixed)
    for start, duration in mixed:
        shuffled.carry(start, duration)
    assert shuffled.busy == in_order.busy, "the order of waits does not change when the pipe is busy"


def test_the_link_has_no_native_collectives_and_passes_the_rest_on() -> None:
    def work(link: LoopLink) -> tuple[int, bool, object]:
        shaped = ShapedLink(link, Pace(1e12))
        shaped.prepare([0, 1])
        done: list[int] = []
        shaped.submit(lambda: done.append(1)).wait(1)
        native = shaped.native("all_reduce", torch.ones(1), [0, 1])
        flat = torch.full((5,), float(shaped.world.rank + 1))
        reduce_(Route(shaped.port, (0, 1), shaped.world.rank, 0, 5.0, "test"), flat, graphs.ring(2), 2)
        shaped.close()
        return len(done), native is None, flat.tolist()

    assert LoopWorld(2).run(work) == [(1, True, [3.0] * 5)] * 2


def ring_by_gloo(numel: int, bits_per_second: float) -> tuple[float, float]:
    dist.init_process_group("gloo")
    link = TorchDistLink.connect()
    shaped = ShapedLink(link, Pace(bits_per_second))
    rank, size = link.world.rank, link.world.size
    flat = torch.full((numel,), float(rank))
    route = Route(shaped.port, tuple(range(size)), rank, 0, 30.0, "test")
    dist.barrier()
    began = monotonic()
    reduce_(route, flat, graphs.ring(size), size)
    seconds = monotonic() - began
    dist.barrier()
    shaped.close()
    dist.destroy_process_group()
    return seconds, float(flat.sum()) / numel


@pytest.mark.processes
def test_a_ring_between_processes_takes_the_formulas_time() -> None:
    workers, numel, rate = 3, 300_000, 50e6
    formula_s = 2 * (workers - 1) / workers * 4 * numel * 8 / rate
    for seconds, mean in processes(workers, ring_by_gloo, numel, rate):
        assert mean == sum(range(workers))
        assert formula_s <= seconds <= 1.5 * formula_s + 0.3
