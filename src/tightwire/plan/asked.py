"""What a parameter server costs here: one worker asks, and both ends look at both clocks; then all ask at once.

    wall      what asking takes beyond the wire is software that nobody hides            `ask_s`, `ask_byte_s`
    cores     what they did beyond that, each end while bytes were on the wire           `…_core_byte_s`
    at once   who is through when says how evenly messages share the server's port       `uneven`

All workers call this together; the first one keeps the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isinf

import torch
from torch import nn

from tightwire.algebra.recipe import Leaf
from tightwire.algebra.schedule import Due, Meta
from tightwire.algebra.world import At
from tightwire.plan.calibrate import SETTLE_S, heard, told
from tightwire.plan.cluster import Link
from tightwire.plan.profile import Overheads
from tightwire.plan.uneven import unevenness
from tightwire.recipes.asgd import asgd
from tightwire.run.lane import Lane
from tightwire.run.serve import Client
from tightwire.run.shards import make_shard
from tightwire.run.transport import Transport
from tightwire.server.events import Enter, Push

_SMALL, _SMALL_TIMES = 256, 3  # small questions differ most from one another
_BOTH, _PUSH, _PULL = Due(push=True, pull=True), Due(push=True, pull=False), Due(push=False, pull=True)


@dataclass(frozen=True)
class Asked:
    """One question with its answer: on the wall, and what it kept cores busy at both ends."""

    wall_s: float
    busy_s: float
    keeper_s: float


def with_asking(
    costs: Overheads, transport: Transport, link: Link, *, numel: int = 1 << 20, rounds: int = 5
) -> Overheads:
    """The costs of a server too. ``link`` is what joins the workers: its time is not counted as software's."""
    small, large = _asking(transport, _SMALL, _SMALL_TIMES * rounds, 0), _asking(transport, numel, rounds, 1)
    world = transport.link.world
    serve_s = told(transport, _serving(transport, numel, rounds) if world.rank == world.size - 1 else 0.0)
    nbytes = 4 * (numel - _SMALL)
    shown = max(0.0, (large.wall_s - small.wall_s - serve_s) / 2 - nbytes / link.bytes_per_s) / nbytes
    keeper = max(0.0, large.keeper_s - small.keeper_s - serve_s) / (2 * nbytes)
    asker = max(0.0, large.busy_s - small.busy_s) / (2 * nbytes)
    return replace(
        costs,
        ask_s=small.wall_s,
        ask_core_s=min(small.wall_s, small.busy_s + small.keeper_s),
        ask_byte_s=shown,
        ask_core_byte_s=max(0.0, asker - shown),
        keep_core_byte_s=max(0.0, keeper - max(0.0, shown - asker)),
        serve_byte_s=serve_s / (4 * numel),
        uneven=_at_once(transport, link, numel, rounds),
    )


class _Probe:
    """A lane of so many numbers that this worker may ask for."""

    def __init__(self, transport: Transport, numel: int, which: int) -> None:
        self.weight = nn.Parameter(torch.zeros(numel))
        self.lane = Lane(Leaf(asgd()), {"probe": self.weight}, transport.link.world, label=f"calibration.{which}")
        self.optimizer = torch.optim.SGD([self.weight], lr=0.0, momentum=0.9)
        self.at = At(0, world=transport.link.world, lr=0.1)

    def client(self, transport: Transport) -> Client:
        """It has come to the server."""
        client = Client(self.lane, transport, self.optimizer, SETTLE_S)
        client.enter(self.at)
        return client


def _asking(transport: Transport, numel: int, rounds: int, which: int) -> Asked:
    """The last worker asks, the first one answers, the others wait."""
    probe = _Probe(transport, numel, which)
    client = probe.client(transport)
    rank, last = transport.link.world.rank, transport.link.world.size - 1
    wall_s = busy_s = 0.0
    if rank == last:
        client.meet(_BOTH, probe.at)
    told(transport, 0.0)
    worked = time.process_time()
    if rank == last:
        one = heard(lambda: client.meet(_BOTH, probe.at), rounds)
        wall_s, busy_s = one.wall_s, one.busy_s
    told(transport, 0.0)
    kept_s = (time.process_time() - worked) / (1 + rounds)
    found = Asked(told(transport, wall_s), told(transport, busy_s), told(transport, kept_s if rank == 0 else 0.0))
    client.leave()
    return found


def _at_once(transport: Transport, link: Link, numel: int, rounds: int) -> float:
    """All but the keeper push, and all but the keeper pull."""
    world = transport.link.world
    if world.size < 3 or isinf(link.bytes_per_s):
        return 0.0
    probe = _Probe(transport, numel, 2)
    client = probe.client(transport)
    alone_s = 4 * numel / link.bytes_per_s
    found = []
    for due in (_PUSH, _PULL):
        client.meet(due, probe.at)
        found += [_race(transport, lambda due=due: client.meet(due, probe.at)) for _ in range(rounds)]  # type: ignore[misc]
    client.leave()
    return unevenness(found, alone_s)


def _race(transport: Transport, ask: Callable[[], None]) -> list[float]:
    """When each of those who ask was through."""
    world = transport.link.world
    told(transport, 0.0)
    start = time.perf_counter()
    if world.rank > 0:
        ask()
    took = time.perf_counter() - start
    return [told(transport, took if world.rank == rank else 0.0) for rank in range(1, world.size)]


def _serving(transport: Transport, numel: int, rounds: int) -> float:
    """A push and the centre that goes back, by the shard alone."""
    probe = _Probe(transport, numel, 9)
    shard = make_shard(probe.lane, probe.optimizer, probe.at, piece=0, pieces=1)
    shard.handle(Enter(0, 0))
    numbers = iter(range(10**6))
    label = probe.lane.parcels[0].label

    def push() -> None:
        number = next(numbers)
        wires = {label: torch.zeros(numel)}
        shard.handle(Push(0, number, Meta(0, number, number), wires, (0.1,), True, frozenset(), "after"))

    return heard(push, _SMALL_TIMES * rounds).busy_s
