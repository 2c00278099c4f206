"""Signs: one bit an element and a magnitude, and as much of the energy as the paper says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from tests.codecs.common import bucket, encoded, rebuilt
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.sign import sign
from tightwire.testing.strategies import buckets


@given(buckets())
def test_every_element_becomes_the_mean_magnitude_with_its_own_sign(x: Bucket) -> None:
    out = rebuilt(sign(), x)
    for segment, flat in x.segments():
        if segment.numel:
            wanted = torch.where(flat >= 0, flat.abs().mean(), -flat.abs().mean())
            torch.testing.assert_close(out[segment.name].flatten(), wanted, rtol=1e-5, atol=1e-7)


@given(buckets())
def test_the_error_is_what_the_paper_says(x: Bucket) -> None:
    out = rebuilt(sign(), x)
    for segment, flat in x.segments():
        if segment.numel:
            error = (out[segment.name].flatten() - flat).double().square().sum()
            energy = flat.double().square().sum()
            kept = flat.double().abs().sum().square() / segment.numel
            torch.testing.assert_close(error, energy - kept, rtol=1e-4, atol=1e-5 * float(energy))


def test_zero_counts_as_positive() -> None:
    x = Bucket(torch.tensor([0.0, -2.0, 4.0]), Spec.pack([("w", (3,))]))
    assert rebuilt(sign(), x).flat.tolist() == [2.0, -2.0, 2.0]


def test_rows_of_one_element_are_exact() -> None:
    x = bucket((20, 1))
    assert torch.equal(rebuilt(sign("row"), x).flat, x.flat)


def test_a_bit_an_element_and_a_float_a_tensor_or_row() -> None:
    x = bucket((40, 30), (7,))
    assert encoded(sign(), x)[0].payload.nbytes == -(-1207 // 8) + 4 * 2 == sign().capacity(x.spec, At())
    assert encoded(sign("row"), x)[0].payload.nbytes == -(-1207 // 8) + 4 * 41 == sign("row").capacity(x.spec, At())


def test_magnitudes_of_anything_else_are_refused() -> None:
    with pytest.raises(RecipeError, match="layer"):
        sign("layer")  # type: ignore[arg-type]
