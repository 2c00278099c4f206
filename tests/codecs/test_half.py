"""Half: two bytes, nearest neighbours, and a range that clips instead of overflowing."""

from __future__ import annotations

import pytest
import torch

from tests.codecs.common import bucket, encoded, left_over, rebuilt
from tightwire.algebra.check import check
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.half import Kind, half
from tightwire.memories.residual import residual
from tightwire.recipes.make import recipe


@pytest.mark.parametrize(("kind", "precision"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_numbers_are_rounded_to_the_nearest(kind: Kind, precision: float) -> None:
    x = bucket((40, 30))
    error = (rebuilt(half(kind), x).flat - x.flat).abs()
    assert bool((error <= precision * x.flat.abs() + 2.0**-25).all())
    assert float(error.max()) > 0


def test_two_bytes_an_element_and_no_more() -> None:
    x = bucket((40, 30), (7,), ())
    assert encoded(half(), x)[0].payload.nbytes == 2 * x.spec.numel == half().capacity(x.spec, At())


def test_what_is_too_large_is_sent_in_part_and_kept_in_part() -> None:
    x = Bucket(torch.tensor([1e6, -1e6, 65504.0]), Spec.pack([("w", (3,))]))
    assert rebuilt(half(), x).flat.tolist() == [65504.0, -65504.0, 65504.0]
    assert left_over(half(), x).tolist() == [1e6 - 65504, 65504 - 1e6, 0.0]


def test_what_is_too_small_arrives_once_enough_is_owed() -> None:
    spec, memory = Spec.pack([("w", (1,))]), residual()
    state, arrived = memory.init(spec), 0.0
    for _ in range(1000):
        value = memory.before(Bucket(torch.tensor([1e-9]), spec), state, At())
        arrived += float(rebuilt(half(), value).flat)
        memory.after(value, encoded(half(), value)[0].sent, value, state, At())
    assert not rebuilt(half(), Bucket(torch.tensor([1e-9]), spec)).flat.any()
    assert arrived == pytest.approx(1e-6, rel=0.1)


def test_an_all_reduce_is_refused_because_halves_round_again_on_the_way() -> None:
    with pytest.raises(RecipeError, match="gather"):
        check(recipe("mine", codec=half()))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(RecipeError, match="float8"):
        half("float8")  # type: ignore[arg-type]
