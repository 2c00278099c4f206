"""One bit: row sums survive, bytes are counted to the last, zeros stay zeros."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.codec import Payload
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.onebit import onebit, row_means, rows
from tightwire.testing.codecs import encode
from tightwire.testing.strategies import buckets


def wire_of(x: Bucket) -> torch.Tensor:
    return encode(onebit(), [x], [{}]).results[0].payload.wire


def rebuilt(x: Bucket) -> Bucket:
    out = Bucket.zeros(x.spec)
    onebit().decode_(out, Payload(wire_of(x)), {}, At())
    return out


@given(buckets())
def test_row_sums_of_the_reconstruction_are_those_of_the_value(x: Bucket) -> None:
    out = rebuilt(x)
    for segment, flat in x.segments():
        value_RC = flat.view(segment.rows, segment.row_numel).double()
        rebuilt_RC = out[segment.name].view(segment.rows, segment.row_numel).double()
        size = float(value_RC.abs().sum(1).max()) if segment.numel else 0.0
        torch.testing.assert_close(rebuilt_RC.sum(1), value_RC.sum(1), rtol=0, atol=1e-6 * size)


@given(buckets())
def test_the_mean_of_each_side_is_that_of_the_value(x: Bucket) -> None:
    out = rebuilt(x)
    for segment, flat in x.segments():
        for value, back in zip(
            flat.view(segment.rows, segment.row_numel), out[segment.name].view(segment.rows, -1), strict=True
        ):
            for side in (value >= 0, value < 0):
                if side.any():
                    assert back[side].unique().numel() == 1
                    torch.testing.assert_close(back[side][0], value[side].mean(), rtol=1e-4, atol=1e-6)


@given(buckets())
def test_a_payload_has_a_bit_an_element_and_two_means_a_row(x: Bucket) -> None:
    bits, means = -(-x.spec.numel // 8), sum(segment.rows for segment in x.spec.segments)
    assert wire_of(x).numel() == bits + 8 * means == onebit().capacity(x.spec, At())
    assert rows(x.spec) == means


@pytest.mark.parametrize("shape", [(3, 5), (7,), (), (2, 2, 2, 2)])
def test_rows_of_zeros_stay_zero(shape: tuple[int, ...]) -> None:
    x = Bucket.zeros(Spec.pack([("w", shape)]))
    assert torch.equal(rebuilt(x).flat, x.flat)


def test_a_zero_row_beside_another_stays_zero() -> None:
    x = Bucket(torch.tensor([0.0, 0.0, 0.0, 1.0, -2.0, 3.0]), Spec.pack([("w", (2, 3))]))
    assert rebuilt(x)["w"].tolist() == [[0, 0, 0], [2, -2, 2]]


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20))
def test_rows_of_one_element_are_exact(values: list[float]) -> None:
    x = Bucket(torch.tensor(values), Spec.pack([("w", (len(values), 1))]))
    assert torch.equal(rebuilt(x).flat, x.flat)


def test_zeros_count_on_the_upper_side() -> None:
    x = Bucket(torch.tensor([0.0, 2.0, 4.0, -1.0]), Spec.pack([("w", (4,))]))
    assert rebuilt(x).flat.tolist() == [2.0, 2.0, 2.0, -1.0]


def test_an_empty_side_has_mean_zero() -> None:
    means = row_means(torch.tensor([[1.0, 3.0], [-1.0, -3.0], [0.0, 0.0]]))
    assert means.tolist() == [[0, 2], [-2, 0], [0, 0]]


def test_decoding_adds_to_what_is_there() -> None:
    x = Bucket(torch.tensor([1.0, 3.0, -4.0]), Spec.pack([("w", (3,))]))
    out = Bucket(torch.tensor([10.0, 10.0, 10.0]), x.spec)
    onebit().decode_(out, Payload(wire_of(x)), {}, At())
    assert out.flat.tolist() == [12.0, 12.0, 6.0]


@pytest.mark.parametrize("change", [-1, 1])
def test_a_payload_of_another_length_is_refused_and_nothing_is_added(change: int) -> None:
    x = Bucket(torch.randn(20), Spec.pack([("w", (4, 5))]))
    wire = wire_of(x)
    damaged = wire[:change] if change < 0 else torch.cat([wire, wire[:1]])
    out = Bucket.zeros(x.spec)
    with pytest.raises(PayloadError, match=f"{wire.numel() + change} bytes where {wire.numel()} belong"):
        onebit().decode_(out, Payload(damaged), {}, At())
    assert not out.flat.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_what_is_said_to_be_sent_is_what_arrives_in_any_precision(dtype: torch.dtype) -> None:
    x = Bucket(torch.randn(24).to(dtype), Spec.pack([("w", (4, 6))], dtype))
    left = Bucket(x.flat.clone(), x.spec)
    encode(onebit(), [x], [{}]).results[0].sent.subtract_from_(left)
    assert torch.equal(left.flat, x.flat - rebuilt(x).flat)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_tensors_without_elements_are_carried(shape: tuple[int, ...]) -> None:
    x = Bucket(torch.tensor([1.0, -1.0]), Spec.pack([("empty", shape), ("b", (2,))]))
    assert rebuilt(x)["b"].tolist() == [1.0, -1.0]
