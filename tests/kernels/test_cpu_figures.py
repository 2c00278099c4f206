"""Figures of stretches by compiled loops: those of torch, whatever the layout, and the same bits by any threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tightwire.algebra.tensors import Bucket, Spec
from tightwire.codecs.onebit import row_means
from tightwire.codecs.stretches import Per, lengths
from tightwire.kernels import cpu_figures
from tightwire.kernels.cpu_figures import CpuFigures, chunks

numba_figures = pytest.importorskip("tightwire.kernels.numba_figures")
FIGURES = CpuFigures(numba_figures)
shapes = st.lists(st.lists(st.integers(0, 40), max_size=3).map(tuple), max_size=6)
pers = st.one_of(st.sampled_from(["row", "tensor"]), st.integers(1, 700))


def bucket(shapes: list[tuple[int, ...]], seed: int = 0) -> Bucket:
    spec = Spec.pack([(str(number), shape) for number, shape in enumerate(shapes)])
    return Bucket(torch.randn(spec.numel, generator=torch.Generator().manual_seed(seed)), spec)


def pieces(x: Bucket, per: Per) -> list[Tensor]:
    return list(x.flat.split([part for s in x.spec.segments for part in lengths(s, per)]))


@given(shapes=shapes, per=pers, seed=st.integers(0, 9))
def test_sizes_are_those_of_every_stretch(shapes: list[tuple[int, ...]], per: Per, seed: int) -> None:
    x = bucket(shapes, seed)
    square_S, most_S = FIGURES.sizes(x, per)
    cut = pieces(x, per)
    assert len(square_S) == len(most_S) == len(cut)
    for square, most, piece in zip(square_S, most_S, cut, strict=True):
        assert float(square) == pytest.approx(float(piece.double().square().sum()), rel=1e-12)
        assert float(most) == (float(piece.abs().max()) if len(piece) else 0.0)


@given(shapes=shapes, seed=st.integers(0, 9))
def test_means_are_those_of_every_row(shapes: list[tuple[int, ...]], seed: int) -> None:
    x = bucket(shapes, seed)
    each = [row_means(flat.view(s.rows, s.row_numel)) for s, flat in x.segments()]
    assert torch.equal(FIGURES.means(x), torch.cat([torch.empty(0, 2), *each]))


@pytest.mark.parametrize("per", ["row", "tensor", 512])
def test_long_stretches_are_cut_and_threads_change_no_bit(per: Per, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_figures, "_SHARED_FROM", 1)
    x = bucket([(3, 40_000), (7,), (0, 3), (50_001,)])
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append([*FIGURES.sizes(x, per), FIGURES.means(x)])
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))
    assert float(found[0][0].sum()) == pytest.approx(float(x.flat.double().square().sum()), rel=1e-12)
    made = chunks(x.spec, per)
    assert (made.end_C - made.begin_C).max() <= 1 << 14
    assert np.array_equal(made.begin_C[1:], made.end_C[:-1]) and made.end_C[-1] == x.spec.numel


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_shows(odd: float) -> None:
    x = bucket([(2, 300), (5,)])
    x.flat[17] = odd
    square_S, most_S = FIGURES.sizes(x, "tensor")
    assert not square_S[0].isfinite() and not most_S[0].isfinite() and square_S[1].isfinite() and most_S[1].isfinite()
    assert not FIGURES.means(x)[0].isfinite().all() and FIGURES.means(x)[1].isfinite().all()
