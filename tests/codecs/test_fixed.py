"""Fixed point: on the grid, within the range, right on average, in 8 or 16 bits."""

from __future__ import annotations

import pytest
import torch

from tests.codecs.common import bucket, encoded, rebuilt
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.fixed import fixed


@pytest.mark.parametrize(("whole", "fraction"), [(2, 14), (2, 6), (8, 8), (1, 7), (16, 0), (4, 12)])
def test_every_number_is_one_of_its_two_neighbours(whole: int, fraction: int) -> None:
    codec, x = fixed(whole, fraction), bucket((40, 30))
    x.flat.clamp_(-codec.most, codec.most)
    words = rebuilt(codec, x).flat.double() / codec.step
    assert torch.equal(words, words.round())
    assert bool(((words - x.flat.double() / codec.step).abs() < 1).all())


def test_what_is_on_the_grid_is_exact() -> None:
    codec = fixed(2, 6)
    x = Bucket(torch.arange(-128, 128) * codec.step, Spec.pack([("w", (256,))]))
    assert torch.equal(rebuilt(codec, x).flat, x.flat)


def test_the_range_ends_where_the_word_does() -> None:
    codec = fixed(2, 6)
    x = Bucket(torch.tensor([100.0, -100.0]), Spec.pack([("w", (2,))]))
    assert rebuilt(codec, x).flat.tolist() == [codec.most, -2.0]
    assert codec.most == 2 - 1 / 64


@pytest.mark.parametrize(("bits", "fraction"), [(8, 6), (16, 14)])
def test_one_word_an_element(bits: int, fraction: int) -> None:
    codec, x = fixed(2, fraction), bucket((40, 30), (7,), ())
    assert encoded(codec, x)[0].payload.nbytes == x.spec.numel * bits // 8 == codec.capacity(x.spec, At())


def test_a_number_below_the_grid_is_sent_as_often_as_it_should() -> None:
    codec, spec = fixed(2, 6), Spec.pack([("w", (20000,))])
    out = rebuilt(codec, Bucket(torch.full((20000,), codec.step / 10), spec)).flat
    assert float((out != 0).float().mean()) == pytest.approx(0.1, abs=0.01)


def test_cutting_a_tensor_between_rows_changes_no_word() -> None:
    codec, x = fixed(2, 6), bucket((12, 9), (7,))
    whole = rebuilt(codec, x).flat
    for pieces in (2, 3, 5):
        assert torch.equal(torch.cat([rebuilt(codec, piece).flat for piece in x.cut(pieces)]), whole)


@pytest.mark.parametrize(("whole", "fraction"), [(2, 2), (0, 8), (9, 9)])
def test_a_word_of_another_length_is_refused(whole: int, fraction: int) -> None:
    with pytest.raises(RecipeError, match="8 or 16"):
        fixed(whole, fraction)
