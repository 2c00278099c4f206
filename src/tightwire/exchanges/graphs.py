"""Who sends what to whom, as pure functions of the number of workers.

All ranks compute the same list. Where rounds of a graph overlap in time on different ranks, a transfer still only
needs what earlier rounds gave its sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from tightwire.algebra.exchange import Transfer

Op = Literal["add", "copy"]


def ring(size: int) -> list[Transfer]:
    """Reduce-scatter then all-gather around a ring; 2(P−1) rounds, ``size`` parts.

    Reduce-scatter: in round s rank p sends part p−s. All-gather: it sends part p+1−s.

    >>> [(t.src, t.dst, t.lo, t.op) for t in ring(2)]
    [(0, 1, 0, 'add'), (1, 0, 1, 'add'), (0, 1, 1, 'copy'), (1, 0, 0, 'copy')]
    """
    return multi_ring((size,))


def multi_ring(dims: Sequence[int]) -> list[Transfer]:
    """Rings along each dimension of a grid of workers: reduce-scatter inward, all-gather outward.

    Rank = Σ coordinate_i · stride_i, the first dimension fastest. After dimension i the live range is 1/(P₁⋯P_i) of
    the buffer, so slow outer links carry little.
    """
    live = [(0, prod(dims))] * prod(dims)  # each rank's range of parts
    rounds: list[Transfer] = []
    unwind = []
    for axis in range(len(dims)):
        unwind.append((axis, list(live)))
        rounds += _ring_pass(dims, axis, live, "add", first=_next(rounds))
        for rank in range(len(live)):
            lo, hi = live[rank]
            width = (hi - lo) // dims[axis]
            owned = (_coordinate(rank, dims, axis) + 1) % dims[axis]
            live[rank] = (lo + owned * width, lo + (owned + 1) * width)
    for axis, before in reversed(unwind):
        rounds += _ring_pass(dims, axis, before, "copy", first=_next(rounds))
    return rounds


def _ring_pass(dims: Sequence[int], axis: int, live: Sequence[tuple[int, int]], op: Op, first: int) -> list[Transfer]:
    """One trip around every ring along ``axis``; ``live`` is the range that the ring shares."""
    along = dims[axis]
    stride = prod(dims[:axis])
    made = []
    for s in range(along - 1):
        for rank in range(prod(dims)):
            here = _coordinate(rank, dims, axis)
            ahead = rank + ((here + 1) % along - here) * stride
            lo, hi = live[rank]
            width = (hi - lo) // along
            part = (here - s) % along if op == "add" else (here + 1 - s) % along
            made.append(Transfer(first + s, rank, ahead, lo + part * width, lo + (part + 1) * width, op))
    return made


def _coordinate(rank: int, dims: Sequence[int], axis: int) -> int:
    return rank // prod(dims[:axis]) % dims[axis]


def halving_doubling(size: int) -> list[Transfer]:
    """Recursive halving, then doubling, among the largest power of two of workers; the others fold into partners.

    Neighbours exchange half of the buffer first, then ranks at distance 2 a quarter, and so on; the way back retraces
    it. A rank beyond the power of two gives its whole buffer to a partner before and gets it back after.

    >>> len(halving_doubling(8)), max(t.round for t in halving_doubling(8))
    (48, 5)
    """
    core = 1 << (size.bit_length() - 1)
    made = [Transfer(0, rank, rank - core, 0, core, "add") for rank in range(core, size)]
    live = [(0, core)] * core
    unwind = []
    distance = 1
    while distance < core:
        first = _next(made)
        kept = []
        for rank in range(core):
            lo, hi = live[rank]
            middle = (lo + hi) // 2
            low_side = rank & distance == 0
            kept.append((lo, middle) if low_side else (middle, hi))
            given = (middle, hi) if low_side else (lo, middle)
            made.append(Transfer(first, rank, rank ^ distance, *given, "add"))
        unwind.append((distance, kept))
        live = kept
        distance *= 2
    for distance, kept in reversed(unwind):
        first = _next(made)
        made += [Transfer(first, rank, rank ^ distance, *kept[rank], "copy") for rank in range(core)]
    last = _next(made)
    return made + [Transfer(last, rank - core, rank, 0, core, "copy") for rank in range(core, size)]


def tree(size: int) -> list[Transfer]:
    """Binomial reduction to rank 0, then broadcast: 2⌈log₂P⌉ rounds of the whole buffer."""
    up = _binomial(size)
    depth = _next([Transfer(round_, 0, 0, 0, 1, "add") for round_, _, _ in up])
    made = [Transfer(round_, child, parent, 0, 1, "add") for round_, child, parent in up]
    return made + [Transfer(t.round + depth, t.src, t.dst, 0, 1, "copy") for t in broadcast(size)]


def broadcast(size: int) -> list[Transfer]:
    """Rank 0's whole buffer to everybody, down a binomial tree.

    >>> [(t.round, t.src, t.dst) for t in broadcast(4)]
    [(0, 0, 2), (1, 0, 1), (1, 2, 3)]
    """
    up = _binomial(size)
    last = max((round_ for round_, _, _ in up), default=0)
    down = sorted((last - round_, parent, child) for round_, child, parent in up)
    return [Transfer(round_, parent, child, 0, 1, "copy") for round_, parent, child in down]


def _binomial(size: int) -> list[tuple[int, int, int]]:
    """(round, child, parent) of a reduction to rank 0."""
    edges = []
    distance, round_ = 1, 0
    while distance < size:
        edges += [(round_, rank, rank - distance) for rank in range(distance, size, 2 * distance)]
        distance, round_ = 2 * distance, round_ + 1
    return edges


def all_to_all_copy(size: int) -> list[Transfer]:
    """Everybody's own slot straight to everybody else, in one round; slot p is rank p's."""
    return [Transfer(0, src, (src + hop) % size, src, src + 1, "copy") for hop in range(1, size) for src in range(size)]


def to_owners(size: int) -> list[Transfer]:
    """A different slot to everybody else, in one round; slot src·P+dst goes from src to dst."""
    return [
        Transfer(0, src, dst, src * size + dst, src * size + dst + 1, "copy")
        for hop in range(1, size)
        for src in range(size)
        for dst in [(src + hop) % size]
    ]


def most_square(size: int) -> tuple[int, int]:
    """The two factors of ``size`` that are closest to each other, larger first.

    >>> most_square(8), most_square(7)
    ((4, 2), (7, 1))
    """
    short = max(d for d in range(1, int(size**0.5) + 1) if size % d == 0)
    return size // short, short


def _next(made: Sequence[Transfer]) -> int:
    return max((t.round for t in made), default=-1) + 1
