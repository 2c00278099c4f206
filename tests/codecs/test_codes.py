"""Codes come back as they went in, from as few bytes as promised."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.codec import Payload
from tightwire.algebra.errors import PayloadError
from tightwire.codecs.codes import codes_nbytes, exactly, pack_codes, scales, unpack_codes


@given(st.integers(1, 16), st.lists(st.integers(0, 2**16 - 1), max_size=40))
def test_codes_come_back(width: int, numbers: list[int]) -> None:
    code_N = torch.tensor([n % 2**width for n in numbers], dtype=torch.int64)
    packed = pack_codes(code_N, width)
    assert packed.dtype == torch.uint8
    assert packed.numel() == codes_nbytes(len(numbers), width)
    assert unpack_codes(packed, len(numbers), width).tolist() == code_N.tolist()


@given(st.integers(1, 8), st.integers(0, 100))
def test_no_byte_is_spared(width: int, count: int) -> None:
    assert codes_nbytes(count, width) == -(-count * width // 8)


def test_packing_leaves_the_codes_alone() -> None:
    code_N = torch.tensor([1, 2, 3, 0, 1, 2, 3, 0], dtype=torch.uint8)
    pack_codes(code_N, 2)
    assert code_N.tolist() == [1, 2, 3, 0, 1, 2, 3, 0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_a_scale_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(PayloadError, match="scale"):
        scales(torch.tensor([1.0, bad]).view(torch.uint8), "test")


def test_another_length_is_refused() -> None:
    with pytest.raises(PayloadError, match="3 bytes where 4 belong"):
        exactly(Payload(torch.zeros(3, dtype=torch.uint8)), 4, "test")
