"""What messages cost here: a short exchange among all workers, small and large, ours and native.

    T(n) = o + n·t        two sizes give both: o from the small one, t from the difference

All workers call this together. Two clocks are read: the wall's, and the time that this process kept a core busy. What
keeps a core busy is software (`Overheads`); what the wall shows beyond that, as far as cores are shared, is the wire.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from tightwire.exchanges.allreduce import allreduce
from tightwire.links.pipes import SMALL_NBYTES as BY_PIPES_NBYTES
from tightwire.plan.cluster import Link
from tightwire.plan.profile import Overheads
from tightwire.run.transport import Entry, Transport

SMALL_NBYTES, LARGEST_NBYTES = 1 << 10, 1 << 23
_ENTRY = Entry("setup", "calibration")
SETTLE_S = 60.0
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
    not_by_pipes = 0 if transport.link.port.exact else BY_PIPES_NBYTES  # where messages are padded, there are no pipes
    own = [_common(transport, _own(transport, n, times, meet, most=n + not_by_pipes)) for n, times in sizes]
    framed = _common(transport, _own(transport, *sizes[0], meet, most=SMALL_NBYTES))
    native = [_common(transport, _native(transport, n, times, meet)) for n, times in sizes]
    job = _common(transport, heard(lambda: transport.link.submit(_nothing).wait(SETTLE_S), rounds))
    moved = large_nbytes - SMALL_NBYTES
    return Overheads(
        message_s=own[0].wall_s / others / slow,
        byte_s=max(0.0, own[1].busy_s - own[0].busy_s) / (others * moved),
        job_s=job.wall_s / slow,
        native_s=native[0].wall_s / ring / slow,
        native_byte_s=max(0.0, native[1].busy_s - native[0].busy_s) / (ring * moved / world.size),
        add_byte_s=_adding(),
        message_core_s=min(own[0].busy_s, own[0].wall_s / slow) / others,
        native_core_s=min(native[0].busy_s, native[0].wall_s / slow) / ring,
        framed_s=framed.wall_s / others / slow,
        framed_core_s=min(framed.busy_s, framed.wall_s / slow) / others,
    )


def measured_link(transport: Transport, costs: Overheads, *, nbytes: int = 1 << 22, slow: float = 1.0) -> Link:
    """The link itself: what a large exchange takes beyond its messages; infinitely fast where cores are the limit."""
    large = _native(transport, nbytes, 3)
    size = transport.link.world.size
    rounds = 2 * (size - 1)
    wire_s = large.wall_s - rounds * costs.native_s * slow
    moved = rounds * nbytes / size
    busy_s = costs.native_byte_s * moved * slow
    return Link(0.0, moved / wire_s if wire_s > 1.1 * busy_s else float("inf"))


def _meet(transport: Transport, between: Callable[[], object] | None) -> None:
    """Do what lies between two messages, and wait until all have done it."""
    if between is not None:
        between()
        told(transport, 0.0)


def _common(transport: Transport, one: Heard) -> Heard:
    """The mean over workers: one alone may have had luck."""
    size = transport.link.world.size
    return Heard(told(transport, one.wall_s) / size, told(transport, one.busy_s) / size)


def heard(operation: Callable[[], object], rounds: int, meet: Callable[[], None] = _nothing) -> Heard:
    """Both clocks of an operation, once it has been done."""
    operation()
    walls, busy = [], []
    for _ in range(rounds):
        meet()
        start, worked = time.perf_counter(), time.process_time()
        operation()
        walls.append(time.perf_counter() - start)
        busy.append(time.process_time() - worked)
    return Heard(statistics.median(walls), statistics.median(busy))


def _own(transport: Transport, nbytes: int, rounds: int, meet: Callable[[], None], *, most: int) -> Heard:
    """Everybody's bytes to everybody, by our executor; by which way is decided by how many they could be."""
    wire = torch.zeros(nbytes, dtype=torch.uint8)
    everybody = transport.everybody()
    job = lambda: transport.gather(wire, everybody, most, _ENTRY)  # noqa: E731
    return heard(lambda: transport.link.submit(job).wait(SETTLE_S), rounds, meet)  # type: ignore[arg-type]


def _native(transport: Transport, nbytes: int, rounds: int, meet: Callable[[], None] = _nothing) -> Heard:
    """The link's own all-reduce, or our ring where it has none."""
    flat = torch.zeros(nbytes // 4)
    everybody = transport.everybody()
    return heard(
        lambda: transport.link.submit(lambda: transport.reduce_(flat, allreduce(), everybody, _ENTRY)).wait(SETTLE_S),
        rounds, meet,
    )  # fmt: skip


def _adding() -> float:
    """What one byte added to another keeps a core busy, of buffers as large as models are."""
    a, b = torch.zeros(LARGEST_NBYTES // 4), torch.ones(LARGEST_NBYTES // 4)
    return heard(lambda: a.add_(b), 7).busy_s / LARGEST_NBYTES


def told(transport: Transport, seconds: float) -> float:
    """What the one who measured says to all; the others wait here, and add nothing."""
    said = torch.tensor([seconds], dtype=torch.float64)
    transport.link.submit(lambda: transport.reduce_(said, allreduce(), transport.everybody(), _ENTRY)).wait(SETTLE_S)
    return float(said)
