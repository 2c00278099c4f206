"""Messages between stages describe themselves, and are not believed blindly."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.errors import PayloadError
from tightwire.splits.boundary import HEADER_INTS, header, shape_of

kinds = st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64])


@given(kinds, st.lists(st.integers(0, 5), max_size=6))
def test_a_header_says_what_the_body_is(dtype: torch.dtype, shape: list[int]) -> None:
    tensor = torch.zeros(shape, dtype=dtype)
    head = header(tensor)
    assert (head.dtype, head.shape) == (torch.int64, (HEADER_INTS,))
    assert shape_of(head, most_bytes=tensor.nbytes) == (dtype, tuple(shape), tensor.nbytes)


@pytest.mark.parametrize("tensor", [torch.zeros(2, dtype=torch.int64), torch.zeros(1, 1, 1, 1, 1, 1, 1)])
def test_a_tensor_that_cannot_cross_is_refused(tensor: torch.Tensor) -> None:
    with pytest.raises(PayloadError, match=f"{tensor.dtype} with {tensor.dim()} dimensions; floating-point tensors"):
        header(tensor)


@pytest.mark.parametrize(
    "numbers", [[-1, 0], [4, 0], [0, -1], [0, 7], [0, 1, -2], [0, 2, 3, -1], [0, 1, 1, 0, 0, 0, 0, 0, -1]], ids=str
)
def test_a_header_that_makes_no_sense_is_refused(numbers: list[int]) -> None:
    head = torch.tensor(numbers + [0] * (HEADER_INTS - len(numbers)))
    with pytest.raises(PayloadError, match="which is no header"):
        shape_of(head, most_bytes=10**9)


def test_a_message_that_announces_too_much_is_refused() -> None:
    head = header(torch.zeros(10, 10))
    assert shape_of(head, most_bytes=400) == (torch.float32, (10, 10), 400)
    with pytest.raises(PayloadError, match=r"announces \(10, 10\) of torch.float32, more than 399 bytes"):
        shape_of(head, most_bytes=399)
