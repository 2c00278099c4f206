"""What a list of transfers costs: α for every round, β at the busiest port, γ for what is added.

    round = α + messages·o + max(bytes at the busiest port ÷ B, bytes of the busiest rank · t) + added bytes · γ
    round = α + max(bytes at the busiest port ÷ B, messages·o + bytes of the busiest rank · t)     where it is native

A native collective cuts its parts in two and handles one while the other is on the wire, so its software hides there.
Rounds follow each other, because a transfer may carry what the round before has brought. On a ring this is the
textbook's 2(P−1)·α + 2(P−1)/P·n·β + (P−1)/P·n·γ (Patarasu & Yuan 2009), and likewise for every other graph: nothing
here knows which graph it is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from tightwire.algebra.exchange import Exchange, Transfer
from tightwire.algebra.world import START, At, World
from tightwire.exchanges import graphs
from tightwire.links.pipes import SMALL_NBYTES
from tightwire.plan.cluster import PERFECT, Cluster, Tier
from tightwire.plan.errors import PlanError
from tightwire.plan.profile import Overheads

_MOST_LISTED = 300  # workers up to which all P² transfers of a dense graph are listed


@dataclass(frozen=True)
class Round:
    """One round in parts of the buffer: at the busiest port of each tier, at the busiest rank, and of all ranks."""

    ports: tuple[tuple[int, int], ...]  # (tier, parts)
    messages: int
    parts: int
    adds: bool
    all_messages: int
    all_parts: int
    active: int  # ranks that take part
    times: int = 1  # so many rounds like this one, one after another


@dataclass(frozen=True, eq=False)
class Graph:
    """Transfers, known by who they are: the same graph is looked at once."""

    transfers: Sequence[Transfer]
    pieces: int
    stands_for: tuple[Round, ...] = ()  # instead of a list too long to write down


def graph_of(exchange: Exchange, world: World, at: At = START) -> Graph:
    """The way up of an exchange. Rings of more than 300 workers are not listed: all their rounds are alike."""
    return _graph_of(exchange, world, at)  # type: ignore[arg-type]  # exchanges are frozen, though no type says so


@lru_cache(maxsize=256)
def _graph_of(exchange: Exchange, world: World, at: At) -> Graph:
    pieces = exchange.pieces(world)
    if world.size > _MOST_LISTED and getattr(exchange, "graph", "") == "ring":
        size = world.size
        rounds = tuple(Round(((-1, 1),), 1, 1, half == 0, size, size, size, times=size - 1) for half in (0, 1))
        return Graph((), pieces, rounds)
    if world.size > _MOST_LISTED and exchange.pattern in ("gather", "owners"):
        return _everybody(world.size, pieces)
    return Graph(exchange.transfers(world, at), pieces)


@lru_cache(maxsize=256)
def spread_of(size: int) -> Graph:
    """Everybody's own slot to everybody else."""
    return _everybody(size, size) if size > _MOST_LISTED else Graph(graphs.all_to_all_copy(size), size)


@lru_cache(maxsize=256)
def broadcast_of(size: int) -> Graph:
    """The first one's buffer to everybody."""
    return Graph(graphs.broadcast(size), 1)


def _everybody(size: int, pieces: int) -> Graph:
    others = size - 1
    return Graph((), pieces, (Round(((-1, others),), others, others, False, size * others, size * others, size),))


@lru_cache(maxsize=1024)
def rounds_of(graph: Graph, groups: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]) -> tuple[Round, ...]:
    """The rounds of a graph that all groups run at once, on tiers of these sizes; rounds that are alike only once."""
    if graph.stands_for:
        outermost = len(sizes) - 1  # whoever shares an inner tier is few among so many
        share = sizes[-2] if len(sizes) > 1 else 1
        return tuple(
            replace(r, ports=tuple((outermost, width * share) for _, width in r.ports)) for r in graph.stands_for
        )
    tiers = Cluster(tuple(Tier("", size, PERFECT) for size in sizes))
    listed = (_round(list(these), groups, tiers) for _, these in groupby(graph.transfers, key=lambda t: t.round))
    return tuple(replace(alike, times=len(list(run))) for alike, run in groupby(listed))


def _round(these: list[Transfer], groups: Iterable[tuple[int, ...]], cluster: Cluster) -> Round:
    out: Counter[tuple[int, int, bool]] = Counter()
    parts: Counter[tuple[int, bool]] = Counter()
    messages: Counter[tuple[int, bool]] = Counter()
    for members in groups:
        for t in these:
            a, b, width = members[t.src], members[t.dst], t.hi - t.lo
            tier = cluster.tier_of(a, b)
            out[(*cluster.port(a, tier), True)] += width
            out[(*cluster.port(b, tier), False)] += width
            for rank, way in ((a, True), (b, False)):
                parts[rank, way] += width
                messages[rank, way] += 1
    busiest: dict[int, int] = {}
    for (tier, _, _), width in out.items():
        busiest[tier] = max(busiest.get(tier, 0), width)
    return Round(
        tuple(sorted(busiest.items())), max(messages.values()), max(parts.values()), any(t.op == "add" for t in these),
        sum(messages.values()) // 2, sum(parts.values()) // 2, len({rank for rank, _ in messages}),
    )  # fmt: skip


Slow = Callable[[int], float]
Mine = tuple[int, tuple[Transfer, ...], tuple[Transfer, ...]]
"""A round: its number, what one sends and what one gets."""


@lru_cache(maxsize=64)
def rounds_by_rank(graph: Graph) -> dict[int, tuple[Mine, ...]]:
    """Every rank's own rounds."""
    if graph.stands_for:
        raise PlanError(
            f"more than {_MOST_LISTED} workers in one collective are too many to play; predict(…) knows them too"
        )
    found: dict[int, dict[int, tuple[list[Transfer], list[Transfer]]]] = {}
    for t in graph.transfers:
        found.setdefault(t.src, {}).setdefault(t.round, ([], []))[0].append(t)
        found.setdefault(t.dst, {}).setdefault(t.round, ([], []))[1].append(t)
    return {
        rank: tuple((number, tuple(out), tuple(into)) for number, (out, into) in sorted(rounds.items()))
        for rank, rounds in found.items()
    }


def by_pipes(frame_nbytes: int, most_nbytes: float) -> bool:
    """Whether messages begin with their length and are small: these go by a way of their own (`links.pipes`)."""
    return frame_nbytes > 0 and most_nbytes <= SMALL_NBYTES


@dataclass(frozen=True)
class Price:
    """Time from a move's first byte to its last; what it keeps cores busy, and its bytes, of all ranks together."""

    seconds: float
    busy_s: float
    nbytes: float


def price(
    rounds: Sequence[Round], part_nbytes: float, most_nbytes: float, frame_nbytes: int, *, tiers: tuple[Tier, ...],
    costs: Overheads, native: bool, slow: Slow,
) -> Price:  # fmt: skip
    """The price of a move whose parts have so many bytes, on average and at most; ``slow(n)`` is how much slower cores
    are when n ranks work.
    """
    message_s, core_s = costs.message(native=native, framed=by_pipes(frame_nbytes, most_nbytes))
    byte_s = costs.native_byte_s if native else costs.byte_s
    seconds = busy = nbytes = 0.0
    for r in rounds:
        mine = r.parts * part_nbytes + r.messages * frame_nbytes
        everyones = r.all_parts * part_nbytes + r.all_messages * frame_nbytes
        frames = frame_nbytes * r.messages / max(1, r.parts)
        port_nbytes = most_nbytes + frames
        wire = max((parts * port_nbytes / tiers[tier].link.bytes_per_s for tier, parts in r.ports), default=0.0)
        latency = max((tiers[tier].link.latency_s for tier, _ in r.ports), default=0.0)
        add_s = costs.add_byte_s if r.adds and not native else 0.0
        factor = slow(r.active)
        software = factor * (r.messages * message_s + mine * add_s)
        moving = factor * byte_s * mine
        seconds += r.times * (latency + (max(wire, software + moving) if native else software + max(wire, moving)))
        busy += r.times * (r.all_messages * core_s + everyones * (byte_s + add_s))
        nbytes += r.times * everyones
    return Price(seconds, busy, nbytes)
