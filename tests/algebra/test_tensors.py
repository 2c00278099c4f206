"""Layouts and buckets: cuts lose nothing, views are views, names are the same however a model is wrapped."""

from __future__ import annotations

from math import ceil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.tensors import Bucket, Segment, Spec, canonical
from tightwire.testing.strategies import specs


def numbered(spec: Spec) -> Bucket:
    return Bucket(torch.arange(spec.numel, dtype=torch.float32), spec)


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as its independent rows."""
    return tensor.flatten(1) if tensor.dim() > 1 else tensor.reshape(1, -1)


@given(specs(), st.integers(1, 9))
def test_a_cut_covers_every_element_exactly_once_in_order(spec: Spec, pieces: int) -> None:
    whole = numbered(spec)
    cut = whole.cut(pieces)
    assert len(cut) == pieces
    assert torch.equal(torch.cat([piece.flat for piece in cut]), whole.flat)


@given(specs(), st.integers(1, 9))
def test_a_piece_holds_whole_rows_and_says_which(spec: Spec, pieces: int) -> None:
    whole = numbered(spec)
    for piece in whole.cut(pieces):
        for segment in piece.spec.segments:
            mine = rows_of(piece[segment.key])
            theirs = rows_of(whole[segment.name])[segment.first_row : segment.first_row + segment.rows]
            assert torch.equal(mine, theirs)


@given(specs(), st.integers(1, 9))
def test_pieces_are_equal_but_for_one_row(spec: Spec, pieces: int) -> None:
    longest = max(segment.row_numel for segment in spec.segments)
    for _, piece in spec.cut(pieces):
        assert piece.numel <= ceil(spec.numel / pieces) + longest


@given(specs(), st.integers(1, 5), st.integers(1, 3))
def test_a_piece_can_be_cut_again(spec: Spec, pieces: int, again: int) -> None:
    whole = numbered(spec)
    for piece in whole.cut(pieces):
        for crumb in piece.cut(again):
            for segment in crumb.spec.segments:
                theirs = rows_of(whole[segment.name])[segment.first_row : segment.first_row + segment.rows]
                assert torch.equal(rows_of(crumb[segment.key]), theirs)


def test_pieces_of_one_tensor_have_different_keys() -> None:
    spec = Spec.pack([("w", (6, 2))])
    assert [[s.key for s in piece.segments] for _, piece in spec.cut(3)] == [["w"], ["w@2"], ["w@4"]]


def test_more_pieces_than_rows_leave_some_empty() -> None:
    sizes = [piece.numel for _, piece in Spec.pack([("b", (7,))]).cut(3)]
    assert sizes == [7, 0, 0]


def test_a_layout_without_elements_can_be_cut() -> None:
    assert [piece.numel for _, piece in Spec.pack([("a", (0,)), ("b", (0, 3)), ("c", (3, 0))]).cut(4)] == [0] * 4


def test_a_piece_keeps_the_kind_of_its_elements() -> None:
    spec = Spec.pack([("w", (4, 2))], torch.bfloat16, "meta")
    assert {(piece.dtype, piece.device) for _, piece in spec.cut(3)} == {(torch.bfloat16, "meta")}
    assert spec.nbytes == 16


@pytest.mark.parametrize(
    ("shape", "numel", "rows", "row_numel"),
    [
        ((), 1, 1, 1),
        ((5,), 5, 1, 5),
        ((3, 4), 12, 3, 4),
        ((2, 3, 5, 7), 210, 2, 105),
        ((0,), 0, 1, 0),
        ((0, 4), 0, 0, 4),
    ],
)
def test_rows_are_output_units(shape: tuple[int, ...], numel: int, rows: int, row_numel: int) -> None:
    segment = Segment("w", 0, shape)
    assert (segment.numel, segment.rows, segment.row_numel) == (numel, rows, row_numel)


@given(specs())
def test_segments_lie_end_to_end(spec: Spec) -> None:
    end = 0
    for segment in spec.segments:
        assert segment.offset == end
        end += segment.numel
    assert spec.numel == end


@given(specs())
def test_a_view_has_the_shape_of_its_tensor_and_the_memory_of_its_bucket(spec: Spec) -> None:
    bucket = Bucket.zeros(spec)
    for number, segment in enumerate(spec.segments, start=1):
        assert bucket[segment.name].shape == segment.shape
        bucket[segment.name].fill_(number)
    for number, (_, flat) in enumerate(bucket.segments(), start=1):
        assert (flat == number).all()
    assert int(bucket.flat.sum()) == sum(n * s.numel for n, s in enumerate(spec.segments, start=1))


def test_a_bucket_is_a_mapping_in_layout_order() -> None:
    bucket = numbered(Spec.pack([("w", (2, 2)), ("b", (2,))]))
    assert list(bucket) == ["w", "b"]
    assert len(bucket) == 2
    assert {name: view.tolist() for name, view in bucket.items()} == {"w": [[0, 1], [2, 3]], "b": [4, 5]}
    assert "x" not in bucket


def test_pieces_are_views() -> None:
    bucket = Bucket.zeros(Spec.pack([("w", (4, 2))]))
    bucket.cut(2)[1].flat.fill_(1)
    assert bucket["w"].tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("flat", [torch.zeros(5), torch.zeros(2, 2)])
def test_memory_that_does_not_fit_the_layout_is_refused(flat: torch.Tensor) -> None:
    with pytest.raises(AssertionError):
        Bucket(flat, Spec.pack([("w", (2, 2))]))


@pytest.mark.parametrize(
    "wrapped",
    [
        "fc.weight",
        "module.fc.weight",
        "_orig_mod.fc.weight",
        "module._orig_mod.fc.weight",
        "_orig_mod.module.fc.weight",
        "fc._orig_mod.weight",
    ],
)
def test_a_name_is_the_same_however_the_model_is_wrapped(wrapped: str) -> None:
    assert canonical(wrapped) == "fc.weight"


@pytest.mark.parametrize("name", ["submodule.weight", "fc.module.weight", "weight", "layers.0.weight"])
def test_a_name_that_nobody_wrapped_stays(name: str) -> None:
    assert canonical(name) == name
