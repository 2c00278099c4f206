"""Cosine coefficients: exact if all are kept, the most energy if few are, and chunks of any tensor."""

from __future__ import annotations

import pytest
import torch

from tests.codecs.common import bucket, encoded, rebuilt
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.dct import Grid, basis, dct


@pytest.mark.parametrize("numel", [1, 2, 5, 64])
def test_the_basis_is_orthonormal(numel: int) -> None:
    rows = basis(numel, torch.device("cpu")).double()
    torch.testing.assert_close(rows @ rows.T, torch.eye(numel, dtype=torch.float64), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (130,), (7, 9), (64, 64), (65, 130), (4, 3, 5, 5), ()], ids=str)
def test_all_coefficients_are_exact(shape: tuple[int, ...]) -> None:
    x = bucket(shape)
    torch.testing.assert_close(rebuilt(dct(4096, values="float32"), x).flat, x.flat, rtol=0, atol=1e-5)


def test_a_smooth_matrix_needs_few_coefficients() -> None:
    wave = torch.outer(torch.cos(torch.arange(64) * 0.1), torch.cos(torch.arange(64) * 0.2))
    x = Bucket(wave.flatten(), Spec.pack([("w", (64, 64))]))
    assert float((rebuilt(dct(32, values="float32"), x).flat - x.flat).norm() / x.flat.norm()) < 0.1


@pytest.mark.parametrize("keep", [1, 8, 100])
def test_the_energy_kept_is_that_of_the_largest_coefficients(keep: int) -> None:
    x = bucket((64, 64))
    rows = basis(64, torch.device("cpu"))
    energy = (rows @ x["t0"] @ rows.T).flatten().square().sort(descending=True).values
    out = rebuilt(dct(keep, values="float32"), x).flat
    assert float(out.square().sum()) == pytest.approx(float(energy[:keep].sum()), rel=1e-4)
    assert float((x.flat - out).square().sum()) <= (1 - keep / 4096) * float(energy.sum())


def test_chunks_are_as_even_as_they_go() -> None:
    grid = Grid(65, 130, 33, 44)
    assert (grid.down, grid.across) == (2, 3)
    x = torch.randn(65 * 130)
    assert torch.equal(grid.join(grid.chunks(x)), x)


def test_a_pick_takes_twelve_bits_and_a_value() -> None:
    x = bucket((128, 64), (10,))
    picks = 2 * 32 + 10
    for values, nbytes in (("bfloat16", 2 * picks), ("float32", 4 * picks)):
        codec = dct(32, values=values)  # type: ignore[arg-type]
        wire = encoded(codec, x)[0].payload
        assert wire.nbytes == nbytes + picks + -(-picks * 4 // 8) == codec.capacity(x.spec, At())


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"chunk": 0}, {"chunk": 300}, {"values": "int4"}], ids=str)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(RecipeError):
        dct(**wrong)  # type: ignore[arg-type]
