"""Bytes and rounds as published, for every graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, log2, prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.exchange import Transfer, elements_moved, part_edges
from tightwire.algebra.tensors import Spec
from tightwire.algebra.world import At, World
from tightwire.codecs.onebit import onebit
from tightwire.exchanges import graphs
from tightwire.exchanges.allreduce import AllReduce, allreduce, halving_doubling, multi_ring, ring, tree
from tightwire.exchanges.gather import Gather, gather
from tightwire.exchanges.nobody import nobody
from tightwire.exchanges.owners import Owners, owners
from tightwire.exchanges.server import server
from tightwire.links.loop import LoopLink, LoopWorld
from tightwire.links.rounds import Route, reduce_

NUMEL = 9240  # divisible by every number of workers below
POWERS = (1, 2, 4, 8)
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12)


def moved(exchange: AllReduce | Gather, size: int, numel: int) -> list[tuple[int, int]]:
    """Elements sent and received by each rank."""
    world = World(0, size)
    edges = part_edges(numel, exchange.pieces(world))
    return [elements_moved(exchange.transfers(world), edges, rank) for rank in range(size)]


def rounds(transfers: Sequence[Transfer]) -> int:
    return max((t.round for t in transfers), default=-1) + 1


@pytest.mark.parametrize(
    "exchange", [allreduce(), ring(), halving_doubling(), multi_ring(), multi_ring(2, 2, 2)], ids=str
)
def test_eight_workers_send_1400_of_800_elements_each(exchange: AllReduce) -> None:
    assert moved(exchange, 8, 800) == [(1400, 1400)] * 8


@pytest.mark.parametrize("size", SIZES)
def test_a_ring_sends_what_is_published(size: int) -> None:
    assert moved(ring(), size, NUMEL) == [(2 * (size - 1) * NUMEL // size,) * 2] * size
    assert rounds(ring().transfers(World(0, size))) == 2 * (size - 1)


@pytest.mark.parametrize("size", POWERS)
def test_halving_doubling_sends_what_a_ring_sends_in_fewer_rounds(size: int) -> None:
    assert moved(halving_doubling(), size, NUMEL) == moved(ring(), size, NUMEL)
    assert rounds(halving_doubling().transfers(World(0, size))) == 2 * int(log2(size))


@pytest.mark.parametrize("size", [3, 5, 6, 7, 11, 12])
def test_halving_doubling_folds_what_is_beyond_a_power_of_two(size: int) -> None:
    core = 1 << (size.bit_length() - 1)
    inside = 2 * (core - 1) * NUMEL // core
    folded = size - core
    wanted = [inside + NUMEL] * folded + [inside] * (core - folded) + [NUMEL] * folded
    assert moved(halving_doubling(), size, NUMEL) == [(sent, sent) for sent in wanted]
    assert rounds(halving_doubling().transfers(World(0, size))) == 2 * int(log2(core)) + 2


@pytest.mark.parametrize("dims", [(2, 3), (3, 2), (4, 2), (2, 2, 3), (12,), (1, 6), (2, 1, 2)])
def test_a_multi_dimensional_ring_sends_what_a_ring_sends(dims: tuple[int, ...]) -> None:
    size = prod(dims)
    assert moved(multi_ring(*dims), size, NUMEL) == moved(ring(), size, NUMEL)
    assert rounds(multi_ring(*dims).transfers(World(0, size))) == sum(2 * (d - 1) for d in dims)


def test_the_outer_dimension_of_a_grid_carries_little() -> None:
    edges = part_edges(NUMEL, 12)
    transfers = multi_ring(4, 3).transfers(World(0, 12))
    outer = [t for t in transfers if t.src // 4 != t.dst // 4]
    inner = [t for t in transfers if t.src // 4 == t.dst // 4]
    assert elements_moved(outer, edges, 0)[0] == 2 * (NUMEL // 4) * 2 // 3
    assert elements_moved(inner, edges, 0)[0] == 2 * NUMEL * 3 // 4


@pytest.mark.parametrize(
    ("size", "dims"), [(1, (1, 1)), (2, (2, 1)), (7, (7, 1)), (8, (4, 2)), (9, (3, 3)), (12, (4, 3)), (36, (6, 6))]
)
def test_a_grid_is_nearly_square_unless_told_otherwise(size: int, dims: tuple[int, int]) -> None:
    assert graphs.most_square(size) == dims
    assert multi_ring().transfers(World(0, size)) == multi_ring(*dims).transfers(World(0, size))


def test_a_grid_that_does_not_fit_the_world_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"dims=\(2, 3\)\) makes a grid of 6 workers, the world has 8; give dims"):
        multi_ring(2, 3).transfers(World(0, 8))


@pytest.mark.parametrize("size", SIZES)
def test_a_tree_moves_whole_buffers_in_logarithmic_rounds(size: int) -> None:
    depth = ceil(log2(size))
    sent = moved(tree(), size, NUMEL)
    assert rounds(tree().transfers(World(0, size))) == 2 * depth
    assert sum(tx for tx, _ in sent) == 2 * (size - 1) * NUMEL
    assert sent[0] == (depth * NUMEL, depth * NUMEL)
    assert all(tx == rx for tx, rx in sent)


@pytest.mark.parametrize("size", SIZES)
def test_a_broadcast_reaches_everybody_once(size: int) -> None:
    made = graphs.broadcast(size)
    assert sorted(t.dst for t in made) == list(range(1, size))
    assert rounds(made) == ceil(log2(size))


@pytest.mark.parametrize("size", SIZES)
def test_a_gather_sends_everybodys_payload_to_everybody_in_one_round(size: int) -> None:
    slots = part_edges(size, size)
    transfers = gather().transfers(World(0, size))
    assert [elements_moved(transfers, slots, rank) for rank in range(size)] == [(size - 1, size - 1)] * size
    assert rounds(transfers) == min(size - 1, 1)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_owners_send_one_part_of_a_payload_up_and_one_down(size: int) -> None:
    spec = Spec.pack([("w", (64, 32))])
    pieces = [onebit().capacity(piece, At()) for _, piece in spec.cut(size)]
    world = World(0, size)
    up, down = list(owners().transfers(world)), list(owners().down(world))
    each_way = (size - 1) * (64 * 32 // 8 + 8 * 64) // size
    for rank in range(size):
        assert sum(pieces[t.lo % size] for t in up if t.src == rank) == each_way
        assert sum(pieces[t.lo] for t in down if t.src == rank) == each_way
    assert rounds(up) == rounds(down) == min(size - 1, 1)


@pytest.mark.parametrize("size", SIZES)
def test_every_piece_goes_to_its_owner_once(size: int) -> None:
    up = Owners().transfers(World(0, size))
    assert Owners().pieces(World(0, size)) == size**2
    assert {(t.src, t.dst) for t in up} == {(i, j) for i in range(size) for j in range(size) if i != j}
    assert all((t.lo, t.hi) == (t.src * size + t.dst, t.src * size + t.dst + 1) for t in up)


def test_nothing_goes_between_workers_that_meet_a_server_or_nobody() -> None:
    assert list(server().transfers(World(0, 4))) == list(nobody().transfers(World(0, 4))) == []


@pytest.mark.parametrize("exchange", [ring(), halving_doubling(), multi_ring(), tree()], ids=str)
@pytest.mark.parametrize("size", [3, 8])
def test_the_executor_hands_over_the_bytes_that_are_listed(exchange: AllReduce, size: int) -> None:
    def one(link: LoopLink) -> tuple[int, int]:
        world = link.world
        route = Route(link.port, tuple(range(size)), world.rank, 0, 10.0, "test")
        done = reduce_(route, torch.zeros(840), exchange.transfers(world), exchange.pieces(world))
        return done.tx, done.rx

    assert LoopWorld(size).run(one) == [(4 * tx, 4 * rx) for tx, rx in moved(exchange, size, 840)]


@given(st.integers(2, 64), st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_dense_format_is_chosen_exactly_where_a_ring_sends_less(workers: int, capacity: int, dense: int) -> None:
    gathered, around = (workers - 1) * capacity, 2 * (workers - 1) * dense / workers
    for rank in (0, workers - 1):
        assert gather().densely(capacity, dense, World(rank, workers)) == (around < gathered)


def test_at_break_even_payloads_stay_as_they_are() -> None:
    assert not gather().densely(500, 1000, World(0, 4))
    assert gather().densely(501, 1000, World(0, 4))


def test_a_gather_as_encoded_never_switches() -> None:
    assert not gather("as_encoded").densely(10**9, 1, World(0, 64))


@given(st.integers(0, 1000), st.integers(1, 40))
def test_parts_cover_a_buffer_and_differ_by_one_element_at_most(numel: int, pieces: int) -> None:
    edges = part_edges(numel, pieces)
    sizes = [hi - lo for lo, hi in pairwise(edges)]
    assert len(sizes) == pieces
    assert (edges[0], edges[-1]) == (0, numel)
    assert max(sizes) - min(sizes) <= 1
