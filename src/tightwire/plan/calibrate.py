"""What messages cost here: a short exchange among all workers, small and large, ours and native, and with a server.

    T(n) = o + n·t        two sizes give both: o from the small one, t from the difference

All workers call this together. Two clocks are read: the wall's, and the time that this process kept a core busy. What
keeps a core busy is software (`Overheads`); what the wall shows beyond that, as far as cores are shared, is the wire.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from tightwire.algebra.recipe import Leaf
from tightwire.algebra.schedule import Due, Meta
from tightwire.algebra.world import At
from tightwire.exchanges.allreduce import allreduce
from tightwire.plan.cluster import Link
from tightwire.plan.profile import Overheads
from tightwire.recipes.asgd import asgd
from tightwire.run.lane import Lane
from tightwire.run.serve import Client
from tightwire.run.shards import make_shard
from tightwire.run.transport import Entry, Transport
from tightwire.server.events import Enter, Push

SMALL_NBYTES, LARGEST_NBYTES = 1 << 10, 1 << 25
_ENTRY = Entry("setup", "calibration")
_SETTLE_S = 60.0
_SMALL_TIMES = 3  # small messages differ most from one another


@dataclass(frozen=True)
class Heard:
    """Medians of one operation: on the wall, and of this process' cores."""

    wall_s: float
    busy_s: float


def _nothing() -> None:
    pass


def calibrate(
    transport: Transport,
    *,
    large_nbytes: int = 1 << 22,
    rounds: int = 5,
    slow: float = 1.0,
    between: Callable[[], object] | None = None,
) -> Overheads:
    """Measure; ``slow`` is by what factor workers slow each other down when all of them work (`Profile.slowed`).

    ``between`` is done before every message, as a step computes before it exchanges: whoever sends again and again
    finds all code and threads warm, and measures half of what a message costs in a step.
    """
    world = transport.link.world
    others, ring = max(1, world.size - 1), 2 * max(1, world.size - 1)
    sizes = ((SMALL_NBYTES, _SMALL_TIMES * rounds), (large_nbytes, rounds))
    meet = partial(_meet, transport, between)
    own = [_common(transport, _own(transport, n, times, meet)) for n, times in sizes]
    native = [_common(transport, _native(transport, n, times, meet)) for n, times in sizes]
    job = _common(transport, _heard(lambda: transport.link.submit(_nothing).wait(_SETTLE_S), rounds))
    moved = large_nbytes - SMALL_NBYTES
    return Overheads(
        message_s=own[0].wall_s / others / slow,
        byte_s=max(0.0, own[1].busy_s - own[0].busy_s) / (others * moved),
        job_s=job.wall_s / slow,
        native_s=native[0].wall_s / ring / slow,
        native_byte_s=max(0.0, native[1].busy_s - native[0].busy_s) / (ring * moved / world.size),
        add_byte_s=_adding() / slow,
        message_core_s=min(own[0].busy_s, own[0].wall_s / slow) / others,
        native_core_s=min(native[0].busy_s, native[0].wall_s / slow) / ring,
    )


def measured_link(transport: Transport, costs: Overheads, *, nbytes: int = 1 << 22, slow: float = 1.0) -> Link:
    """The link itself: what a large exchange takes beyond its messages; infinitely fast where cores are the limit."""
    heard = _native(transport, nbytes, 3)
    size = transport.link.world.size
    rounds = 2 * (size - 1)
    wire_s = heard.wall_s - rounds * costs.native_s * slow
    moved = rounds * nbytes / size
    busy_s = costs.native_byte_s * moved * slow
    return Link(0.0, moved / wire_s if wire_s > 1.1 * busy_s else float("inf"))


def with_asking(
    costs: Overheads, transport: Transport, link: Link, *, numel: int = 1 << 20, rounds: int = 5
) -> Overheads:
    """The costs of a server too: the last worker asks one that the first one keeps; the others wait.

    ``link`` is what joins them: its time is not counted as software's.
    """
    small, large = (_asking(transport, n, rounds, which) for which, n in enumerate((256, numel)))
    world = transport.link.world
    serve = _told(transport, _serving(transport, numel, rounds) if world.rank == world.size - 1 else 0.0)
    nbytes = 4 * (numel - 256)
    moving = max(0.0, (large.wall_s - small.wall_s - serve) / 2 - nbytes / link.bytes_per_s) / nbytes
    return replace(costs, ask_s=small.wall_s, ask_byte_s=moving, serve_byte_s=serve / (4 * numel))


def _meet(transport: Transport, between: Callable[[], object] | None) -> None:
    """Do what lies between two messages, and wait until all have done it."""
    if between is not None:
        between()
        _told(transport, 0.0)


def _common(transport: Transport, heard: Heard) -> Heard:
    """The mean over workers: one alone may have had luck."""
    size = transport.link.world.size
    return Heard(_told(transport, heard.wall_s) / size, _told(transport, heard.busy_s) / size)


def _heard(operation: Callable[[], object], rounds: int, meet: Callable[[], None] = _nothing) -> Heard:
    operation()
    walls, busy = [], []
    for _ in range(rounds):
        meet()
        start, worked = time.perf_counter(), time.process_time()
        operation()
        walls.append(time.perf_counter() - start)
        busy.append(time.process_time() - worked)
    return Heard(statistics.median(walls), statistics.median(busy))


def _own(transport: Transport, nbytes: int, rounds: int, meet: Callable[[], None] = _nothing) -> Heard:
    """Everybody's bytes to everybody, by our executor."""
    wire = torch.zeros(nbytes, dtype=torch.uint8)
    everybody = transport.everybody()
    job = lambda: transport.gather(wire, everybody, nbytes, _ENTRY)  # noqa: E731
    return _heard(lambda: transport.link.submit(job).wait(_SETTLE_S), rounds, meet)  # type: ignore[arg-type]


def _native(transport: Transport, nbytes: int, rounds: int, meet: Callable[[], None] = _nothing) -> Heard:
    """The link's own all-reduce, or our ring where it has none."""
    flat = torch.zeros(nbytes // 4)
    everybody = transport.everybody()
    return _heard(
        lambda: transport.link.submit(lambda: transport.reduce_(flat, allreduce(), everybody, _ENTRY)).wait(_SETTLE_S),
        rounds, meet,
    )  # fmt: skip


def _adding() -> float:
    """Seconds for one byte added to another, of buffers that no cache holds."""
    a, b = torch.zeros(LARGEST_NBYTES // 4), torch.ones(LARGEST_NBYTES // 4)
    return _heard(lambda: a.add_(b), 7).wall_s / LARGEST_NBYTES


def _lane(transport: Transport, numel: int, which: int) -> tuple[Lane, torch.optim.Optimizer]:
    weight = nn.Parameter(torch.zeros(numel))
    lane = Lane(Leaf(asgd()), {"probe": weight}, transport.link.world, label=f"calibration.{which}")
    return lane, torch.optim.SGD([weight], lr=0.0, momentum=0.9)


def _asking(transport: Transport, numel: int, rounds: int, which: int) -> Heard:
    lane, optimizer = _lane(transport, numel, which)
    client = Client(lane, transport, optimizer, _SETTLE_S)
    world = transport.link.world
    at = At(0, world=world, lr=0.1)
    client.enter(at)
    heard = Heard(0.0, 0.0)
    if world.rank == world.size - 1:
        heard = _heard(lambda: client.meet(Due(push=True, pull=True), at), rounds)
    heard = Heard(_told(transport, heard.wall_s), _told(transport, heard.busy_s))
    client.leave()
    return heard


def _told(transport: Transport, seconds: float) -> float:
    """What the one who measured says to all; the others wait here, and add nothing."""
    said = torch.tensor([seconds], dtype=torch.float64)
    transport.link.submit(lambda: transport.reduce_(said, allreduce(), transport.everybody(), _ENTRY)).wait(_SETTLE_S)
    return float(said)


def _serving(transport: Transport, numel: int, rounds: int) -> float:
    """A push and the centre that goes back, by the shard alone."""
    lane, optimizer = _lane(transport, numel, 9)
    at = At(0, world=transport.link.world, lr=0.1)
    shard = make_shard(lane, optimizer, at, piece=0, pieces=1)
    shard.handle(Enter(0, 0))
    numbers = iter(range(10**6))
    label = lane.parcels[0].label

    def push() -> None:
        number = next(numbers)
        wires = {label: torch.zeros(numel)}
        shard.handle(Push(0, number, Meta(0, number, number), wires, (0.1,), True, frozenset(), "after"))

    return _heard(push, rounds).wall_s
