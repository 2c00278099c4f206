"""QSGD: neighbouring levels, the published variance, the published bytes, and no division by nothing."""

from __future__ import annotations

import pytest
import torch

from tests.codecs.common import bucket, encoded, rebuilt
from tightwire.algebra.codec import Payload
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.qsgd import Norm, qsgd

NORMS: tuple[Norm, ...] = ("max", "l2")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("levels", [1, 3, 7, 100])
def test_every_element_goes_to_one_of_its_two_levels(levels: int, norm: Norm) -> None:
    x = bucket((512,))
    size = x.flat.norm() if norm == "l2" else x.flat.abs().max()
    place = levels * x.flat.abs() / size
    level = (rebuilt(qsgd(levels, norm=norm), x).flat.abs() * levels / size).double()
    torch.testing.assert_close(level, level.round(), rtol=0, atol=1e-4)
    assert bool(((level - place).abs() < 1 + 1e-4).all())


@pytest.mark.parametrize(("levels", "size"), [(1, 64), (4, 64), (16, 64), (7, 512)])
def test_the_error_stays_below_the_published_bound(levels: int, size: int) -> None:
    x, codec = bucket((size,)), qsgd(levels, bucket=size, norm="l2")
    energy = float(x.flat.square().sum())
    errors = [float((rebuilt(codec, x, step).flat - x.flat).square().sum()) for step in range(60)]
    assert sum(errors) / 60 <= 1.05 * min(size / levels**2, size**0.5 / levels) * energy


def test_the_largest_magnitude_has_a_tenth_of_the_error_of_the_length_at_the_same_bytes() -> None:
    x = bucket((4096,))
    largest, length = (
        sum(float((rebuilt(qsgd(norm=norm), x, step).flat - x.flat).square().sum()) for step in range(5))
        for norm in NORMS
    )
    assert largest < length / 10


def test_small_buckets_have_less_error_than_one_norm_for_all() -> None:
    x = bucket((4096,))
    few, one = (
        sum(float((rebuilt(qsgd(7, bucket=d, norm="l2"), x, step).flat - x.flat).square().sum()) for step in range(5))
        for d in (64, 4096)
    )
    assert few < one / 4


@pytest.mark.parametrize(("levels", "bits"), [(1, 2), (3, 3), (7, 4), (15, 5), (127, 8)])
def test_the_published_bytes(levels: int, bits: int) -> None:
    x = bucket((2, 512), (700,))
    nbytes = 4 * (2 + 2) + -(-1724 * bits // 8)
    assert encoded(qsgd(levels), x)[0].payload.nbytes == nbytes == qsgd(levels).capacity(x.spec, At())


def test_a_bucket_of_zeros_beside_another_stays_zero() -> None:
    x = Bucket(torch.cat([torch.zeros(8), torch.ones(8)]), Spec.pack([("w", (16,))]))
    out = rebuilt(qsgd(7, bucket=8), x).flat
    assert not out[:8].any() and bool(out.isfinite().all()) and bool(out[8:].any())


def test_buckets_of_one_element_are_exact() -> None:
    x = bucket((30,), (4, 4))
    torch.testing.assert_close(rebuilt(qsgd(1, bucket=1), x).flat, x.flat)


def test_a_level_that_is_none_is_refused() -> None:
    x = bucket((4,))
    wire = encoded(qsgd(4), x)[0].payload.wire.clone()
    wire[-1] = 255
    out = Bucket.zeros(x.spec)
    with pytest.raises(PayloadError, match="level above 4"):
        qsgd(4).decode_(out, Payload(wire), {}, At())
    assert not out.flat.any()


@pytest.mark.parametrize("wrong", [{"levels": 0}, {"levels": 128}, {"bucket": 0}, {"norm": "l1"}], ids=str)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(RecipeError):
        qsgd(**wrong)  # type: ignore[arg-type]
