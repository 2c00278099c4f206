"""Ports that carry one message at a time in each direction, and what crossed them.

A message holds its sender's port for n ÷ B as soon as that is free, then waits for its receiver's port, which it holds
as long and, if free, at the same time; α later it has arrived. What waits in between waits in a switch.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tightwire.plan.cluster import Cluster, Link
from tightwire.plan.engine import Engine


@dataclass(frozen=True)
class Traffic:
    """Other people's bytes: bursts of ``nbytes`` at every outermost port, ``every_s`` apart on average."""

    nbytes: float
    every_s: float
    seed: int = 0


class Port:
    """One direction of one port: when it is free, and what it has carried."""

    __slots__ = ("free_s", "link", "nbytes")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.free_s = 0.0
        self.nbytes = 0

    def take(self, now_s: float, nbytes: int) -> float:
        """Carry so many bytes as soon as it is free; returns when it begins."""
        start = self.free_s if self.free_s > now_s else now_s
        self.free_s = start + nbytes / self.link.bytes_per_s
        self.nbytes += nbytes
        return start


Message = tuple[Port, int, Callable[[Any], None], Any]


class Network:
    """All ports of a cluster."""

    def __init__(self, engine: Engine, cluster: Cluster) -> None:
        self._engine = engine
        self._cluster = cluster
        self._ports: dict[tuple[int, int, bool], Port] = {}  # (tier, group, outgoing)
        self._of_rank: dict[tuple[int, int, bool], Port] = {}  # (tier, rank, outgoing)
        self._one_tier = len(cluster.tiers) == 1

    def port(self, rank: int, tier: int, outgoing: bool) -> Port:
        """The port by which a rank reaches others of a tier."""
        port = self._of_rank.get((tier, rank, outgoing))
        if port is None:
            _, group = self._cluster.port(rank, tier)
            port = self._ports.setdefault((tier, group, outgoing), Port(self._cluster.tiers[tier].link))
            self._of_rank[tier, rank, outgoing] = port
        return port

    def send(self, src: int, dst: int, nbytes: int, arrive: Callable[[Any], None], argument: Any = None) -> None:
        """Send; ``arrive(argument)`` is called when it is there."""
        engine = self._engine
        tier = 0 if self._one_tier else self._cluster.tier_of(src, dst)
        start = self.port(src, tier, True).take(engine.now, nbytes)
        message = (self.port(dst, tier, False), nbytes, arrive, argument)
        if start > engine.now:
            engine.at(start, self._reach, message)
        else:
            self._reach(message)

    def _reach(self, message: Message) -> None:
        """A message begins to leave; it queues at its receiver's port in the order in which messages do so."""
        port, nbytes, arrive, argument = message
        port.take(self._engine.now, nbytes)
        self._engine.at(port.free_s + port.link.latency_s, arrive, argument)

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
        port.free_s = max(self._engine.now, port.free_s) + traffic.nbytes / port.link.bytes_per_s
        self._engine.at(self._engine.now + dice.expovariate(1 / traffic.every_s), self._burst, which)

    def by_port(self) -> dict[str, int]:
        """Bytes by tier, group and direction."""
        names = [tier.name for tier in self._cluster.tiers]
        return {
            f"{names[tier]} {group} {'out' if outgoing else 'in'}": port.nbytes
            for (tier, group, outgoing), port in sorted(self._ports.items(), key=lambda entry: entry[0])
        }
