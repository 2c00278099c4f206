"""Top-k: the right elements, the promised bytes, and no trust in what comes over the wire."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.codec import Encoded, Payload, SparseSent
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.bitpack import GAP_SPAN
from tightwire.codecs.topk import TopK, kept, largest, topk
from tightwire.schedules.ramps import staircase
from tightwire.testing.codecs import encode
from tightwire.testing.strategies import buckets

densities = st.sampled_from([0.001, 0.01, 0.1, 0.3, 0.5, 0.99, 1.0])


def bucket(*values: float, dtype: torch.dtype = torch.float32) -> Bucket:
    return Bucket(torch.tensor(values, dtype=dtype), Spec.pack([("w", (len(values),))], dtype))


def encoded(codec: TopK, x: Bucket) -> Encoded:
    return encode(codec, [x], [{}]).results[0]


def rebuilt(codec: TopK, x: Bucket) -> Bucket:
    out = Bucket.zeros(x.spec)
    codec.decode_(out, encoded(codec, x).payload, {}, At())
    return out


@pytest.mark.parametrize("gap", [GAP_SPAN - 1, GAP_SPAN, GAP_SPAN + 1, 70_000, 3 * GAP_SPAN + 5])
def test_gaps_beyond_sixteen_bits_come_back(gap: int) -> None:
    x = Bucket.zeros(Spec.pack([("w", (4 * GAP_SPAN,))]))
    x.flat[3], x.flat[3 + gap] = 1.0, -2.0
    codec = topk(2 / x.flat.numel())
    assert torch.equal(rebuilt(codec, x).flat, x.flat)
    assert encoded(codec, x).payload.nbytes == 6 * (2 + (gap - 1) // GAP_SPAN)


@given(buckets(), densities)
def test_payloads_have_six_bytes_an_element_or_four_and_a_bit_for_every_place(x: Bucket, density: float) -> None:
    selected = sum(kept(segment.numel, density) for segment in x.spec.segments)
    promised = 6 * selected if density < 1 / 16 else 4 * selected + -(-x.spec.numel // 8)
    assert encoded(topk(density), x).payload.nbytes == promised == topk(density).capacity(x.spec, At())


def test_bits_that_mark_other_places_are_refused() -> None:
    codec, x = topk(0.5), bucket(1, -2, 3, 4, 5)
    wire = encoded(codec, x).payload.wire
    for last in (0b00111, 0b11111, 0b100110):
        wire[-1] = last
        out = Bucket.zeros(x.spec)
        if last == 0b00111:
            codec.decode_(out, Payload(wire), {}, At())  # as many, elsewhere
            continue
        with pytest.raises(PayloadError, match="places of 5 where 3 belong"):
            codec.decode_(out, Payload(wire), {}, At())


@given(buckets())
def test_density_one_is_exact(x: Bucket) -> None:
    assert torch.equal(rebuilt(topk(1.0), x).flat, x.flat)


@given(buckets(), densities)
def test_what_is_lost_shrinks_as_the_contraction_says(x: Bucket, density: float) -> None:
    out = rebuilt(topk(density), x)
    for segment, flat in x.segments():
        if segment.numel:
            p, rest = flat.double(), flat.double() - out[segment.name].flatten().double()
            bound = (1 - kept(segment.numel, density) / segment.numel) * (p @ p)
            assert rest @ rest <= bound * (1 + 1e-6)


@given(buckets(), densities)
def test_nothing_left_behind_is_larger_than_what_is_sent(x: Bucket, density: float) -> None:
    sent = encoded(topk(density), x).sent
    assert isinstance(sent, SparseSent)
    chosen = torch.zeros(x.flat.numel(), dtype=torch.bool).index_fill_(0, sent.index_K, True)
    for segment, flat in x.segments():
        mine = chosen[segment.offset : segment.offset + segment.numel]
        assert int(mine.sum()) == kept(segment.numel, density)
        if mine.any() and not mine.all():
            assert flat[mine].abs().min() >= flat[~mine].abs().max()


def test_among_equals_the_lower_position_wins() -> None:
    assert largest(torch.tensor([1.0, -2.0, 2.0, 2.0, -1.0, 2.0]), 3).tolist() == [1, 2, 3]
    assert largest(torch.zeros(5), 2).tolist() == [0, 1]
    assert largest(torch.tensor([1.0, 3.0, -1.0, 1.0]), 3).tolist() == [0, 1, 2]


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), min_size=1, max_size=30), st.integers(1, 30))
def test_the_selection_is_that_of_a_stable_sort(values: list[float], count: int) -> None:
    by_size = sorted(range(len(values)), key=lambda i: -abs(values[i]))
    assert largest(torch.tensor(values), count).tolist() == sorted(by_size[:count])


def test_every_tensor_sends_something() -> None:
    x = Bucket(
        torch.cat([torch.full((100,), 5.0), torch.tensor([0.1, 0.2])]), Spec.pack([("w", (10, 10)), ("b", (2,))])
    )
    assert rebuilt(topk(0.01), x)["b"].tolist() == pytest.approx([0, 0.2])


def test_decoding_adds_to_what_is_there() -> None:
    out = bucket(1.0, 1.0, 1.0, 1.0)
    topk(0.5).decode_(out, encoded(topk(0.5), bucket(0.0, 4.0, 0.0, -3.0)).payload, {}, At())
    assert out.flat.tolist() == [1.0, 5.0, 1.0, -2.0]


def test_a_density_may_change_during_the_run() -> None:
    codec = topk(staircase(0.5, 0.25))
    sizes = [codec.capacity(Spec.pack([("w", (16,))]), At(epochs=epoch)) for epoch in range(3)]
    assert sizes == [4 * 8 + 2, 4 * 4 + 2, 4 * 4 + 2]


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_a_payload_that_lost_bytes_is_refused(cut: int) -> None:
    x = bucket(*range(1, 101))
    for codec in (topk(0.04), topk(0.5)):
        out, whole = Bucket.zeros(x.spec), encoded(codec, x).payload.wire
        if codec.density == 0.5 and cut == 4:
            continue  # one value less: the bits then mark too many
        with pytest.raises(PayloadError, match=f"{len(whole) - cut} bytes is not a whole number of elements"):
            codec.decode_(out, Payload(whole[:-cut]), {}, At())
        assert not out.flat.any()


def test_a_payload_for_a_larger_bucket_is_refused_and_nothing_is_added() -> None:
    payload = encoded(topk(0.02), bucket(*[9.0] + [0.0] * 98 + [8.0])).payload
    out = Bucket.zeros(Spec.pack([("w", (99,))]))
    with pytest.raises(PayloadError, match="position 99 of a bucket of 99"):
        topk(0.02).decode_(out, payload, {}, At())
    assert not out.flat.any()


@pytest.mark.parametrize("density", [0.0, -0.1, 1.5])
def test_a_density_outside_its_range_is_refused(density: float) -> None:
    with pytest.raises(RecipeError, match=f"density={density}"):
        topk(density)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_carried_exactly(dtype: torch.dtype) -> None:
    x = bucket(1.5, -0.3, 2.7, 1e-3, dtype=dtype)
    assert torch.equal(rebuilt(topk(1.0), x).flat, x.flat)


def test_double_precision_is_not_said_to_be_sent_where_it_is_not() -> None:
    x = bucket(1 / 3, 2 / 3, dtype=torch.float64)
    left = Bucket(x.flat.clone(), x.spec)
    encoded(topk(1.0), x).sent.subtract_from_(left)
    assert torch.equal(left.flat, x.flat - rebuilt(topk(1.0), x).flat)


@pytest.mark.parametrize(("numel", "density", "count"), [(1, 0.001, 1), (0, 0.5, 0), (10, 1.0, 10), (1001, 0.001, 2)])
def test_the_count_is_rounded_up(numel: int, density: float, count: int) -> None:
    assert kept(numel, density) == count
