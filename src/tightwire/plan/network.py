"""Ports that are shared evenly by the messages that cross them, each direction for itself, and what crossed them.

    V(t)   bytes that each message at a port has had so far        dV/dt = B ÷ Σ w of the messages at the port
    a message of n bytes that comes when V = v is through when V = v + n ÷ w

A message crosses its sender's port and its receiver's port at the same time, as TCP streams do through a switch that
buffers, and has arrived α after the slower of the two has carried it. One message alone takes α + n ÷ B; k equal ones
that begin together at one port all take α + k·n ÷ B; who begins first ends first.

TCP is even only in the long run: a short stream may have half or twice the share of another. So every message has a
weight w, drawn from a lognormal distribution; ``uneven`` is the deviation of its logarithm (0: all weigh the same).

Parekh & Gallager: A Generalized Processor Sharing Approach to Flow Control. IEEE/ACM ToN 1(3), 1993: V is their
virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import exp, inf
from typing import Any

from tightwire.plan.cluster import Cluster, Link
from tightwire.plan.engine import Engine

_MOMENT_S = 1e-12  # what ends within it ends together: sums of floats differ by as much


@dataclass(frozen=True)
class Traffic:
    """Other people's bytes: bursts of ``nbytes`` at every outermost port, ``every_s`` apart on average."""

    nbytes: float
    every_s: float
    seed: int = 0


class Message:
    """What is under way: the ports that have yet to carry it, and what happens then."""

    __slots__ = ("argument", "arrive", "into", "out", "weight")

    def __init__(self, arrive: Callable[[Any], None], argument: Any, out: Port, into: Port, weight: float) -> None:
        self.arrive, self.argument, self.weight = arrive, argument, weight
        self.out: Port | None = out
        self.into: Port | None = into


_number = count()


class Port:
    """One direction of one port: who is at it, how far they are, and what it has carried.

    Only a port that is watched has events of its own. Of a message's two ports one is watched; the other is looked at
    when that one is done, and watched from then on if it is not.
    """

    __slots__ = ("_engine", "_expected_s", "_looked_s", "_queue", "_shared", "_weights", "link", "nbytes", "watched")

    def __init__(self, engine: Engine, link: Link) -> None:
        self._engine = engine
        self.link = link
        self.nbytes = 0
        self._shared = 0.0  # V
        self._weights = 0.0  # Σ w
        self._looked_s = 0.0
        self._expected_s = inf  # when the next look is due
        self.watched = False
        self._queue: list[tuple[float, int, Message | None]] = []

    @property
    def crowd(self) -> int:
        """Messages that it carries, or has carried since it was last looked at."""
        return len(self._queue)

    def take(self, nbytes: float, message: Message | None = None) -> None:
        """Begin to carry so many bytes; None is nobody's message."""
        queue, now = self._queue, self._engine.now
        if queue:
            shared = self._shared + (now - self._looked_s) * self.link.bytes_per_s / self._weights
            if shared < queue[0][0]:
                self._shared = shared
            else:
                self._look()
        self._looked_s = now
        weight = 1.0 if message is None else message.weight
        self._weights = self._weights + weight if queue else weight
        heappush(queue, (self._shared + nbytes / weight, next(_number), message))
        if self.watched:
            self._look_later()

    def watch(self) -> None:
        """From now on tell messages as soon as they are through."""
        self._look()
        if self._queue:
            self.watched = True
            self._look_later()

    def _look_later(self) -> None:
        """Come back when the first can be through. Whoever joins only delays the others: coming early does no harm."""
        left = (self._queue[0][0] - self._shared) * self._weights / self.link.bytes_per_s
        then = self._looked_s + left
        if then < self._expected_s:
            self._expected_s = then
            self._engine.at(then, self._look_again, then)

    def _look_again(self, expected_s: float) -> None:
        if expected_s != self._expected_s:
            return  # somebody shorter has come since
        self._expected_s = inf
        self._look()
        if self._queue:
            self._look_later()

    def _look(self) -> None:
        """Bring V up to now; whoever is through leaves, and from then on the others have more each."""
        queue, now, rate = self._queue, self._engine.now, self.link.bytes_per_s
        through = []
        while queue:
            then = self._looked_s + (queue[0][0] - self._shared) * self._weights / rate
            if then > now + _MOMENT_S:
                self._shared += (now - self._looked_s) * rate / self._weights
                break
            self._shared, self._looked_s = queue[0][0], min(then, now)
            message = heappop(queue)[2]
            self._weights -= 1.0 if message is None else message.weight
            through.append(message)
        else:
            self._shared, self.watched = 0.0, False
        self._looked_s = now
        for message in through:
            if message is not None:
                self._carried(message)

    def _carried(self, message: Message) -> None:
        """After the other port has carried it too, it arrives."""
        if message.out is self:
            message.out, other = None, message.into
        else:
            message.into, other = None, message.out
        if other is not None and not other.has_carried_its_only():
            if not other.watched:
                other.watch()
        elif self.link.latency_s > 0:
            self._engine.at(self._engine.now + self.link.latency_s, message.arrive, message.argument)
        else:
            message.arrive(message.argument)

    def has_carried_its_only(self) -> bool:
        """True if there was one message alone and it is through: what nearly all ports of many workers find."""
        queue = self._queue
        if self.watched or len(queue) != 1:
            return False
        left = (queue[0][0] - self._shared) * self._weights
        if self._looked_s + left / self.link.bytes_per_s > self._engine.now + _MOMENT_S:
            return False
        queue.clear()
        self._shared = 0.0
        return True


class Network:
    """All ports of a cluster."""

    def __init__(self, engine: Engine, cluster: Cluster, *, uneven: float = 0.0, seed: int = 0) -> None:
        self._engine = engine
        self._cluster = cluster
        self._uneven = uneven
        self._ports: dict[tuple[int, int, bool], Port] = {}  # (tier, group, outgoing)
        self._of_rank: dict[tuple[int, int, bool], Port] = {}  # (tier, rank, outgoing)
        self._one_tier = len(cluster.tiers) == 1
        self._outs: dict[int, Port] = {}  # by rank, of the one tier
        self._intos: dict[int, Port] = {}
        self._dice = random.Random(seed)

    def port(self, rank: int, tier: int, outgoing: bool) -> Port:
        """The port by which a rank reaches others of a tier."""
        port = self._of_rank.get((tier, rank, outgoing))
        if port is None:
            _, group = self._cluster.port(rank, tier)
            made = Port(self._engine, self._cluster.tiers[tier].link)
            port = self._ports.setdefault((tier, group, outgoing), made)
            self._of_rank[tier, rank, outgoing] = port
        return port

    def send(self, src: int, dst: int, nbytes: int, arrive: Callable[[Any], None], argument: Any = None) -> None:
        """Send; ``arrive(argument)`` is called when it is there."""
        engine = self._engine
        if self._one_tier:
            out = self._outs.get(src) or self._outs.setdefault(src, self.port(src, 0, True))
            into = self._intos.get(dst) or self._intos.setdefault(dst, self.port(dst, 0, False))
        else:
            tier = self._cluster.tier_of(src, dst)
            out, into = self.port(src, tier, True), self.port(dst, tier, False)
        out.nbytes += nbytes
        into.nbytes += nbytes
        link = out.link
        if nbytes == 0 or link.bytes_per_s == inf:
            engine.at(engine.now + link.latency_s, arrive, argument)
            return
        weight = exp(self._dice.gauss(0.0, self._uneven)) if self._uneven > 0 else 1.0
        message = Message(arrive, argument, out, into, weight)
        out.take(nbytes, message)
        into.take(nbytes, message)
        busier = out if out.crowd > into.crowd else into
        if not busier.watched:
            busier.watch()

    def disturb(self, traffic: Traffic, workers: int) -> None:
        """Have other traffic at every outermost port."""
        tier = len(self._cluster.tiers) - 1
        ports = {id(port): port for rank in range(workers) for way in (True, False)
                 for port in [self.port(rank, tier, way)]}  # fmt: skip
        dice = random.Random(traffic.seed)
        for port in ports.values():
            self._burst((port, traffic, random.Random(dice.random())))

    def _burst(self, which: tuple[Port, Traffic, random.Random]) -> None:
        port, traffic, dice = which
        if port.link.bytes_per_s < inf:
            port.take(traffic.nbytes)
        self._engine.at(self._engine.now + dice.expovariate(1 / traffic.every_s), self._burst, which)

    def by_port(self) -> dict[str, int]:
        """Bytes by tier, group and direction."""
        names = [tier.name for tier in self._cluster.tiers]
        return {
            f"{names[tier]} {group} {'out' if outgoing else 'in'}": port.nbytes
            for (tier, group, outgoing), port in sorted(self._ports.items(), key=lambda entry: entry[0])
        }
