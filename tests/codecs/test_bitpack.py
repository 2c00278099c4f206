"""Bits and gaps come back as they went in, in as few bytes as promised."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.errors import PayloadError
from tightwire.codecs.bitpack import GAP_SPAN, gaps_from_index, index_from_gaps, most_gaps, pack_bits, unpack_bits

NUMEL = 4 * GAP_SPAN


@given(st.lists(st.booleans(), max_size=70))
def test_bits_come_back_from_an_eighth_of_their_number_in_bytes(bits: list[bool]) -> None:
    packed = pack_bits(torch.tensor(bits, dtype=torch.bool))
    assert packed.dtype == torch.uint8
    assert packed.numel() == -(-len(bits) // 8)
    assert unpack_bits(packed, len(bits)).tolist() == bits


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_the_lowest_bit_comes_first(bits: list[bool]) -> None:
    packed = pack_bits(torch.tensor(bits, dtype=torch.bool))
    assert packed.tolist() == np.packbits(bits, bitorder="little").tolist()


@given(st.sets(st.integers(0, NUMEL - 1), max_size=20).map(sorted))
def test_positions_come_back_from_their_gaps(index: list[int]) -> None:
    value_K = torch.arange(1, len(index) + 1, dtype=torch.float32)
    gap_T, value_T = gaps_from_index(torch.tensor(index, dtype=torch.int64), value_K)
    index_T = index_from_gaps(gap_T, NUMEL)
    real = value_T != 0
    assert gap_T.dtype == torch.int16
    assert index_T[real].tolist() == index
    assert torch.equal(value_T[real], value_K)
    assert len(gap_T) <= most_gaps(len(index), NUMEL)


@given(st.sets(st.integers(0, NUMEL - 1), min_size=1, max_size=20).map(sorted))
def test_there_is_one_filler_for_every_whole_span_that_is_skipped(index: list[int]) -> None:
    gap_T, _ = gaps_from_index(torch.tensor(index), torch.ones(len(index)))
    steps = np.diff([-1, *index]) - 1
    assert len(gap_T) == len(index) + sum(steps // GAP_SPAN)


@pytest.mark.parametrize(
    ("distance", "gaps"),
    [(1, 1), (GAP_SPAN - 1, 1), (GAP_SPAN, 1), (GAP_SPAN + 1, 2), (2 * GAP_SPAN, 2), (2 * GAP_SPAN + 1, 3)],
)
def test_a_gap_reaches_as_far_as_sixteen_bits_can(distance: int, gaps: int) -> None:
    index = torch.tensor([10, 10 + distance])
    gap_T, value_T = gaps_from_index(index, torch.tensor([1.0, 2.0]))
    assert len(gap_T) == 1 + gaps
    assert index_from_gaps(gap_T, NUMEL)[value_T != 0].tolist() == index.tolist()


@pytest.mark.parametrize(("kept", "numel"), [(1, GAP_SPAN), (1, GAP_SPAN + 1), (2, 3 * GAP_SPAN), (3, 10)])
def test_the_bound_on_gaps_holds_for_the_farthest_positions(kept: int, numel: int) -> None:
    index = torch.arange(numel - kept, numel)
    assert len(gaps_from_index(index, torch.ones(kept))[0]) <= most_gaps(kept, numel)


@pytest.mark.parametrize("numel", [0, 1, 5])
def test_gaps_that_lead_out_of_the_bucket_are_refused(numel: int) -> None:
    gap_T = torch.tensor([2, 2], dtype=torch.int16)
    assert index_from_gaps(gap_T, 6).tolist() == [2, 5]
    with pytest.raises(PayloadError, match=f"position 5 of a bucket of {numel} elements"):
        index_from_gaps(gap_T, numel)


def test_negative_gaps_are_large_ones() -> None:
    assert index_from_gaps(torch.tensor([-1], dtype=torch.int16), NUMEL).tolist() == [GAP_SPAN - 1]
