"""Tensors as announced bytes: whole or refused, never more memory than was announced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.errors import PayloadError
from tightwire.links.frames import PIECE_NBYTES, Staging, announce, expect, pieces

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int64, torch.bool]
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(st.lists(st.tuples(st.sampled_from(DTYPES), SHAPES), max_size=4), st.integers(1, 7))
def test_tensors_come_back_bit_for_bit_however_the_stream_is_cut(
    kinds: list[tuple[torch.dtype, tuple[int, ...]]], step: int
) -> None:
    sent = [torch.randint(0, 2, shape).to(dtype) for dtype, shape in kinds]
    staging = Staging(expect(announce(sent)))
    stream = np.concatenate([np.zeros(0, np.uint8), *pieces(sent)])
    for start in range(0, stream.size, step):
        staging.take(stream[start : start + step])
    got = staging.whole()
    assert [(t.dtype, t.shape) for t in got] == [(t.dtype, t.shape) for t in sent]
    assert all(one.equal(other) for one, other in zip(got, sent, strict=True))


def test_large_tensors_travel_in_pieces_of_their_own_memory() -> None:
    tensor = torch.zeros(PIECE_NBYTES // 4 + 1)
    cut = list(pieces([tensor]))
    assert [piece.size for piece in cut] == [PIECE_NBYTES, 4]
    cut[0].view(np.float32)[0] = 5.0
    assert float(tensor[0]) == 5.0, "a piece is a view, not a copy"


def test_a_transposed_tensor_arrives_as_it_reads() -> None:
    sent = torch.arange(6.0).view(2, 3).t()
    staging = Staging(expect(announce([sent])))
    for piece in pieces([sent]):
        staging.take(piece)
    assert staging.whole()[0].equal(sent)


def test_a_stream_that_ends_early_or_late_is_refused() -> None:
    staging = Staging(expect([["float32", [2]]]))
    staging.take(np.zeros(5, np.uint8))
    with pytest.raises(PayloadError, match="3 bytes early"):
        staging.whole()
    with pytest.raises(PayloadError, match="more than were announced"):
        staging.take(np.zeros(4, np.uint8))


ODD: list[Any] = [
    None, {}, [7], [["float32"]], [["float32", 3]], [["complex64", [1]]], [["float32", [-1]]], [["float32", [True]]],
    [["float32", [1.5]]], [["float32", [1] * 17]], [["object", []]],
]  # fmt: skip


@pytest.mark.parametrize("table", ODD, ids=str)
def test_malformed_announcements_are_refused(table: Any) -> None:
    with pytest.raises(PayloadError, match="announce"):
        expect(table)


def test_too_much_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(PayloadError, match="at most"):
        expect([["float64", [1 << 40, 1 << 20]]])
    with pytest.raises(PayloadError, match="at most 8 are taken"):
        expect([["float32", [2]], ["uint8", [1]]], most_nbytes=8)


def test_dtypes_that_cannot_travel_do_not_leave() -> None:
    with pytest.raises(PayloadError, match="complex64 cannot travel"):
        announce([torch.zeros(1, dtype=torch.complex64)])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpus_tensor_travels_from_pinned_memory() -> None:
    sent = torch.arange(PIECE_NBYTES // 2, dtype=torch.float32, device="cuda").view(2, -1).t()
    staging = Staging(expect(announce([sent])))
    for piece in pieces([sent]):
        staging.take(piece)
    assert staging.whole()[0].equal(sent.cpu())
