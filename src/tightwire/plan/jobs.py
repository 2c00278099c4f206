"""One bucket's way over the wire as stages: what each worker computes, and who sends how much to whom.

This is `run.conduct` with times in place of tensors: the same patterns, the same transfers, the same frames. The closed
form adds the stages up (`plan.cost`), the simulator plays them (`plan.simulate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal, cast

from tightwire.algebra.codec import Codec, UsesFactors
from tightwire.algebra.exchange import Exchange, Switches, Transfer, part_edges
from tightwire.algebra.tensors import Spec
from tightwire.algebra.world import At, World
from tightwire.exchanges.allreduce import allreduce
from tightwire.memories.nothing import nothing
from tightwire.plan.cluster import Cluster
from tightwire.plan.layout import Load, Way
from tightwire.plan.moves import Graph, broadcast_of, graph_of, spread_of
from tightwire.plan.profile import Coding, Profile
from tightwire.run.shards import down_of

FRAME_NBYTES = 8  # a payload of varying length is preceded by that length (`links.rounds`)
Ranks = tuple[int, ...]


@dataclass(frozen=True)
class Work:
    """These ranks compute for so long on the profiled device."""

    kind: Literal["encode", "decode"]
    seconds: float
    ranks: Ranks


@dataclass(frozen=True, eq=False)
class Move:
    """Each group runs the same transfers; part i of the buffer is bytes edges[i]..edges[i+1]."""

    graph: Graph
    edges: Sequence[int]
    groups: tuple[Ranks, ...]
    frame_nbytes: int = 0
    native: bool = False

    @property
    def part_nbytes(self) -> float:
        """Bytes of a part, on average."""
        return self.edges[-1] / (len(self.edges) - 1)

    @cached_property
    def most_nbytes(self) -> int:
        """Bytes of the largest part: its port is the busiest."""
        return max(hi - lo for lo, hi in pairwise(self.edges))

    def nbytes(self, transfer: Transfer) -> int:
        """What one transfer carries."""
        return self.edges[transfer.hi] - self.edges[transfer.lo] + self.frame_nbytes


Stage = Work | Move


@dataclass(frozen=True, eq=False)
class Setting:
    """What jobs are made for: costs, links, and a moment."""

    profile: Profile
    cluster: Cluster
    workers: int
    step: int

    @property
    def at(self) -> At:
        """The moment, seen by the first worker."""
        return At(self.step, epochs=1e9, lr=0.1, world=World(0, self.workers, hosts=self.cluster.hosts(self.workers)))

    @property
    def shares_cores(self) -> bool:
        """Whether workers have cores in common: what one does then takes time from the others."""
        return self.cluster.cores is not None

    def inside(self, members: Ranks) -> World:
        """The world as a group of its own sees it."""
        hosts = self.cluster.hosts(self.workers)
        return World(0, len(members), hosts=tuple(hosts[member] for member in members))


def job_of(way: Way, load: Load, setting: Setting) -> list[Stage]:
    """All stages of one bucket of a collective lane."""
    stages: list[Stage] = []
    inner = way.leaf.inner
    if inner is not None:
        for groups in _alike(way.groups):
            stages.append(_reduce_move(load.spec.numel, load.spec.dtype.itemsize, inner.exchange, groups, setting))
    if len(way.speakers) > 1:
        stages += _PATTERNS[way.pattern](way, load, setting)
    if inner is not None:
        for groups in _alike(way.groups):
            stages.append(Move(broadcast_of(len(groups[0])), (0, load.spec.nbytes), groups))
    return [stage for stage in stages if not isinstance(stage, Work) or stage.seconds > 0]


def kept_job_of(way: Way, load: Load, setting: Setting) -> Sequence[Stage]:
    """The same, made once for all bandwidths: nothing of it depends on them."""
    key = (load.label, id(setting.profile), setting.cluster.native, setting.step)
    if key not in way.jobs:
        way.jobs[key] = setting.profile, job_of(way, load, setting)  # what lives keeps its identity
    return cast("Sequence[Stage]", way.jobs[key][1])


def up_nbytes(codec: Codec, spec: Spec, coding: Coding, at: At, *, samples: int = 0) -> int:
    """Bytes of a payload: its capacity, as full as payloads were when they were measured; or its factors."""
    if isinstance(codec, UsesFactors) and samples:
        return sum(by_factors(codec, spec, samples, at.world.size))
    capacity = codec.capacity(spec, at)
    return round(capacity * coding.payload_nbytes / coding.capacity_nbytes) if coding.capacity_nbytes else capacity


def by_factors(codec: UsesFactors, spec: Spec, samples: int, workers: int) -> tuple[int, int]:
    """Bytes of the factors of a batch, where a codec takes them, and of everything else."""
    factors = rest = 0
    for segment in spec.segments:
        if len(segment.shape) == 2 and codec.by_factors(segment, samples=samples, workers=workers):
            factors += 4 * samples * sum(segment.shape)
        else:
            rest += 4 * segment.numel
    return factors, rest


def down_nbytes(way: Way, spec: Spec, profile: Profile, at: At) -> int:
    """Bytes of a centre that comes back."""
    codec = down_of(way.recipe)
    return codec.capacity(spec, at) if codec.identity else up_nbytes(codec, spec, profile.coding(nothing(), codec), at)


def inner_stages(way: Way, setting: Setting, which: Literal["up", "down"]) -> list[Stage]:
    """What a group does before and after its first member asks a server."""
    assert way.leaf.inner is not None
    stages: list[Stage] = []
    for load in way.loads:
        for groups in _alike(way.groups):
            if which == "up":
                numel, itemsize = load.spec.numel, load.spec.dtype.itemsize
                stages.append(_reduce_move(numel, itemsize, way.leaf.inner.exchange, groups, setting))
            else:
                stages.append(Move(broadcast_of(len(groups[0])), (0, load.spec.nbytes), groups))
    return stages


def _reduce_move(
    numel: int, itemsize: int, exchange: Exchange, groups: tuple[Ranks, ...], setting: Setting, *, own: bool = False
) -> Move:
    world = setting.inside(groups[0])
    graph = graph_of(exchange, world)
    edges = [itemsize * edge for edge in part_edges(numel, graph.pieces)]
    native = exchange.native is not None and setting.cluster.native and not own
    return Move(graph, edges, groups, native=native)


def _alike(groups: tuple[Ranks, ...]) -> list[tuple[Ranks, ...]]:
    """Groups of one size together: they run the same graph."""
    sizes = sorted({len(group) for group in groups if len(group) > 1})
    return [tuple(group for group in groups if len(group) == size) for size in sizes]


def _codes(way: Way, load: Load, setting: Setting) -> tuple[Coding, float]:
    coding = setting.profile.coding(*way.recipe.up)
    return coding, load.spec.numel / coding.numel


def _encoding(way: Way, load: Load, setting: Setting) -> list[Stage]:
    """Encode in as many strokes as there are questions, and one more."""
    coding, scale = _codes(way, load, setting)
    exchange = way.recipe.exchange if way.pattern == "reduce" else allreduce()
    stroke = Work("encode", coding.encode_s * scale / (1 + len(coding.asks)), way.speakers)
    stages: list[Stage] = [stroke]
    codec, workers = way.recipe.up[1], len(way.speakers)
    for ask in coding.asks:
        nbytes = max(4, round(ask.nbytes * scale))
        if ask.kind == "gather" and isinstance(codec, UsesFactors):
            nbytes = by_factors(codec, load.spec, setting.profile.batch, workers)[0]
            if nbytes == 0:
                continue
        if ask.kind == "gather":
            stages.append(_spread(nbytes, way.speakers))
        else:
            own = ask.kind == "max"
            stages.append(_reduce_move(nbytes // 4, 4, exchange, (way.speakers,), setting, own=own))
        stages.append(stroke)
    return stages


def _spread(nbytes: int, members: Ranks) -> Move:
    """Everybody's payload to everybody."""
    size = len(members)
    edges = [nbytes * slot for slot in range(size + 1)]
    return Move(spread_of(size), edges, (members,), FRAME_NBYTES)


def _reduce(way: Way, load: Load, setting: Setting) -> list[Stage]:
    exchange, groups = way.recipe.exchange, (way.speakers,)
    if way.plain:
        return [_reduce_move(load.spec.numel, load.spec.dtype.itemsize, exchange, groups, setting)]
    coding, scale = _codes(way, load, setting)
    codec = way.recipe.up[1]
    asked = sum(round(ask.nbytes * scale) for ask in coding.asks)
    payload = up_nbytes(codec, load.spec, coding, setting.at)
    if isinstance(codec, UsesFactors):
        payload = by_factors(codec, load.spec, setting.profile.batch, len(way.speakers))[1]
    elif coding.asks and not coding.capacity_nbytes:
        payload -= asked  # a capacity counts every round
    return [
        *_encoding(way, load, setting),
        *([_reduce_move(payload // 4, 4, exchange, groups, setting)] if payload >= 4 else []),
        Work("decode", (coding.decode_s + coding.settle_s) * scale, way.speakers),
    ]


def _gather(way: Way, load: Load, setting: Setting) -> list[Stage]:
    exchange, codec = way.recipe.exchange, way.recipe.up[1]
    coding, scale = _codes(way, load, setting)
    world = setting.inside(way.speakers)
    encoding, settle = _encoding(way, load, setting), coding.settle_s * scale
    densely = isinstance(exchange, Switches) and exchange.densely(
        codec.capacity(load.spec, setting.at), load.spec.nbytes, world
    )
    if densely:
        decode = Work("decode", coding.decode_s * scale + settle, way.speakers)
        return [
            *encoding, decode, _reduce_move(load.spec.numel, 4, allreduce(), (way.speakers,), setting)
        ]  # fmt: skip
    payload = up_nbytes(codec, load.spec, coding, setting.at, samples=setting.profile.batch)
    decode = Work("decode", coding.decode_s * scale * world.size + settle, way.speakers)
    return [*encoding, _spread(payload, way.speakers), decode]


def _owners(way: Way, load: Load, setting: Setting) -> list[Stage]:
    coding, scale = _codes(way, load, setting)
    down = setting.profile.coding(*way.recipe.down)
    down_scale = load.spec.numel / down.numel
    world = setting.inside(way.speakers)
    size, at = world.size, setting.at
    cuts = [spec for _, spec in load.spec.cut(size)]
    to_owners = [up_nbytes(way.recipe.up[1], cut, coding, at) for cut in cuts]
    ups = [0, *accumulate(to_owners * size)]
    downs = [0, *accumulate(up_nbytes(way.recipe.down[1], cut, down, at) for cut in cuts)]
    everybody = (way.speakers,)
    turn = coding.decode_s * scale + (down.encode_s + down.settle_s) * down_scale / size
    return [
        *_encoding(way, load, setting),
        Move(graph_of(way.recipe.exchange, world), ups, everybody, FRAME_NBYTES),
        Work("encode", turn, way.speakers),  # an owner decodes P pieces of 1/P each, and encodes one
        Move(spread_of(size), downs, everybody, FRAME_NBYTES),  # as the exchange's own `down`
        Work("decode", down.decode_s * down_scale + coding.settle_s * scale, way.speakers),
    ]


def _peers(way: Way, load: Load, setting: Setting) -> list[Stage]:
    coding, scale = _codes(way, load, setting)
    world = setting.inside(way.speakers)
    payload = up_nbytes(way.recipe.up[1], load.spec, coding, setting.at)
    edges = [payload * slot for slot in range(world.size + 1)]
    graph = graph_of(way.recipe.exchange, world, At(setting.step, world=world))
    copied = (2 if way.plain else 1) * payload * setting.profile.overheads.add_byte_s  # a payload, and its frame
    return [
        *_encoding(way, load, setting),
        Work("encode", copied, way.speakers),
        Move(graph, edges, (way.speakers,), FRAME_NBYTES),
        Work(
            "decode",
            coding.decode_s * scale + 2 * load.spec.nbytes * setting.profile.overheads.add_byte_s,
            way.speakers,
        ),
    ]  # what came is added, and the mean taken


_PATTERNS = {"reduce": _reduce, "gather": _gather, "owners": _owners, "peers": _peers}
