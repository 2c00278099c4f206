"""The laws of exchanges: who knows what after each transfer, and what the executor really moves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from tightwire.algebra.exchange import Exchange, Transfer, TwoWay, elements_moved, part_edges
from tightwire.algebra.world import World
from tightwire.links.loop import LoopLink, LoopWorld
from tightwire.links.rounds import Moved, Route, carry, ended, reduce_

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12)


def check_all(exchange: Exchange) -> None:
    """Every law, for worlds of many sizes."""
    for size in SIZES:
        for law in (same_on_all_ranks, everybody_knows_all, executed_as_listed):
            law(exchange, size)


def same_on_all_ranks(exchange: Exchange, size: int) -> None:
    """All ranks list the same transfers, in round order, inside the buffer."""
    lists = [list(exchange.transfers(World(rank, size))) for rank in range(size)]
    pieces = exchange.pieces(World(0, size))
    for other in lists:
        assert other == lists[0]
    rounds = [t.round for t in lists[0]]
    assert rounds == sorted(rounds), "transfers are listed in round order"
    for t in lists[0]:
        assert t.src != t.dst and 0 <= t.src < size and 0 <= t.dst < size, t
        assert 0 <= t.lo < t.hi <= pieces, t


def everybody_knows_all(exchange: Exchange, size: int) -> None:
    """Nobody sends what it has not, adds anything twice, or gets what it has; in the end everybody has everything."""
    world = World(0, size)
    pieces = exchange.pieces(world)
    know = _initial_knowledge(exchange, size, pieces)
    _spread(exchange.transfers(world), know)
    _assert_complete(exchange, size, know)
    if isinstance(exchange, TwoWay):
        down = [[frozenset({rank}) if part == rank else frozenset() for part in range(size)] for rank in range(size)]
        _spread(exchange.down(world), down)
        assert all(all(parts) for parts in down), "somebody does not get every owner's sum"


def _spread(transfers: Sequence[Transfer], know: list[list[frozenset[int]]]) -> None:
    """Let knowledge follow the transfers; every message must be possible and needed."""
    copied: set[tuple[int, int]] = set()
    for _, group in groupby(transfers, key=lambda t: t.round):
        before = [list(parts) for parts in know]
        for t in group:
            for part in range(t.lo, t.hi):
                sent, had = before[t.src][part], know[t.dst][part]
                assert sent, f"rank {t.src} sends part {part}, of which it has nothing: {t}"
                assert (t.dst, part) not in copied, f"part {part} of rank {t.dst} was copied and is sent again: {t}"
                if t.op == "add":
                    assert not sent & had, f"ranks {sorted(sent & had)} are counted twice in part {part}: {t}"
                    know[t.dst][part] = had | sent
                else:
                    assert sent > had, f"rank {t.dst} gets nothing new for part {part}: {t}"
                    know[t.dst][part] = sent
                    copied.add((t.dst, part))


def _initial_knowledge(exchange: Exchange, size: int, pieces: int) -> list[list[frozenset[int]]]:
    """Whose contributions each rank has of each part before anything moves."""
    nothing: frozenset[int] = frozenset()
    match exchange.pattern:
        case "reduce":
            return [[frozenset({rank})] * pieces for rank in range(size)]
        case "gather" | "peers":
            return [[frozenset({rank}) if part == rank else nothing for part in range(pieces)] for rank in range(size)]
        case "owners":
            return [[frozenset({rank}) if part // size == rank else nothing for part in range(pieces)]
                    for rank in range(size)]  # fmt: skip
        case _:
            return [[nothing] * pieces for _ in range(size)]


def _assert_complete(exchange: Exchange, size: int, know: list[list[frozenset[int]]]) -> None:
    everybody = frozenset(range(size))
    for rank, parts in enumerate(know):
        match exchange.pattern:
            case "reduce":
                assert all(part == everybody for part in parts), f"rank {rank} of {size} lacks a part of the sum"
            case "gather":
                assert all(parts), f"rank {rank} of {size} lacks a payload"
            case "peers":
                assert size == 1 or exchange.transfers(World(0, size)), "nobody meets anybody"
            case "owners":
                assert all(parts[src * size + rank] for src in range(size)), f"owner {rank} lacks a piece"


def executed_as_listed(exchange: Exchange, size: int) -> None:
    """The executor moves the elements that the list says, no more and no less, and everybody ends with the sum."""
    world = World(0, size)
    transfers = exchange.transfers(world)
    if exchange.pattern == "reduce":
        for numel in (0, 1, size * 5, size * 5 + 1):
            edges = part_edges(numel, exchange.pieces(world))
            flats = [torch.arange(numel, dtype=torch.float32) + 100 * rank for rank in range(size)]
            total = torch.stack(flats).sum(0)
            for rank, (out, moved) in enumerate(_reduce_everywhere(exchange, size, flats)):
                torch.testing.assert_close(out, total)
                tx, rx = elements_moved(transfers, edges, rank)
                assert (moved.tx, moved.rx) == (4 * tx, 4 * rx), f"rank {rank}: {moved}, listed {4 * tx}, {4 * rx}"
    elif exchange.pattern == "gather":
        for rank, slots in enumerate(_gather_everywhere(exchange, size)):
            assert [slot.numel() for slot in slots] == list(range(1, size + 1)), f"rank {rank} got {slots}"


def _reduce_everywhere(exchange: Exchange, size: int, flats: list[Tensor]) -> list[tuple[Tensor, Moved]]:
    def one(link: LoopLink) -> tuple[Tensor, Moved]:
        flat = flats[link.world.rank].clone()
        moved = reduce_(_route(link), flat, exchange.transfers(link.world), exchange.pieces(link.world))
        return flat, moved

    return LoopWorld(size).run(one)


def _gather_everywhere(exchange: Exchange, size: int) -> list[list[Tensor]]:
    def one(link: LoopLink) -> list[Tensor]:
        slots: list[Tensor | None] = [None] * size
        slots[link.world.rank] = torch.zeros(link.world.rank + 1, dtype=torch.uint8)
        ended(carry(_route(link), slots, exchange.transfers(link.world), [size] * size))
        return [slot for slot in slots if slot is not None]

    return LoopWorld(size).run(one)


def _route(link: LoopLink) -> Route:
    return Route(link.port, tuple(range(link.world.size)), link.world.rank, 0, 10.0, "law")
