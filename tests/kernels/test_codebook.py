"""Products with packed codes: on a GPU every way of looking them up gives that of the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels.test_words import drawn
from tightwire.kernels.codebook import SMALL_BATCH, tiles, times, vector
from tightwire.kernels.codebook_layout import Codes, PackedCodes, listed, packed, unpacked
from tightwire.kernels.compiled import compiled

CPU = torch.device("cpu")
gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_a_vector_of_another_size_is_refused() -> None:
    made = packed(np.ones(6, np.uint8), rows=2, codebook_K=np.ones(1, np.float32), device=CPU)
    with pytest.raises(ValueError, match="3 columns"):
        times(made, torch.zeros(1, 4))


def on_gpu(rows: int, columns: int, centroids: int, density: float) -> tuple[list[Codes], torch.Tensor]:
    code, codebook, dense = drawn(rows, columns, density, centroids, 0)
    device = torch.device("cuda")
    made: list[Codes] = [
        packed(code, rows=rows, codebook_K=codebook, device=device),
        listed(code, rows=rows, codebook_K=codebook, device=device),
    ]
    return made, torch.from_numpy(dense).to(device)


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("centroids", [3, 15, 31, 255])
@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (17, 257), (33, 1000), (64, 4096), (100, 8191)])
def test_a_vector_on_the_gpu(rows: int, columns: int, centroids: int, dtype: torch.dtype) -> None:
    made, dense = on_gpu(rows, columns, centroids, 0.3)
    x = torch.randn(1, columns, device="cuda").to(dtype)
    want = x.double() @ dense.T
    bound = (x.double().abs() @ dense.abs().T) * {torch.float32: 1e-5}.get(dtype, torch.finfo(dtype).eps)
    for matrix in made:  # the tensor cores are given rounded weights, and the result is rounded once more
        assert bool(((times(matrix, x).double() - want).abs() <= 1.5 * bound).all())


@gpu
@needs_gpu
@pytest.mark.parametrize("way", ["shuffle", "load"])
def test_every_way_to_look_a_code_up_gives_the_same_product(way: str) -> None:
    made, dense = on_gpu(100, 2000, 15, 0.3)
    assert isinstance(made[0], PackedCodes)
    x = torch.randn(2000, device="cuda")
    got = vector(compiled("triton", "this test", "codebook"), made[0], x, way=way).double()
    assert bool(((got - x.double() @ dense.T).abs() <= 1e-5 * (x.double().abs() @ dense.abs().T)).all())


@gpu
@needs_gpu
@pytest.mark.parametrize(("high", "warps"), [(1, 8), (2, 8), (4, 8), (2, 16), (1, 2)])
@pytest.mark.parametrize("centroids", [15, 200])
def test_every_shape_of_a_program_gives_the_same_product(high: int, warps: int, centroids: int) -> None:
    made, dense = on_gpu(130, 4096, centroids, 0.7)
    assert isinstance(made[0], PackedCodes)
    x = torch.randn(11, 4096, device="cuda").half()
    want = x.double() @ dense.half().double().T
    got = tiles(compiled("triton", "this test", "tiles"), made[0], x, high=high, warps=warps).double()
    assert bool(((got - want).abs() <= 1e-3 * (x.double().abs() @ dense.abs().T)).all())


@gpu
@needs_gpu
@pytest.mark.parametrize("centroids", [15, 200])
def test_large_matrices_that_cut_tiles_on_the_gpu(centroids: int) -> None:
    rows, columns = 8193, 8200
    random = np.random.default_rng(0)
    code = random.integers(0, centroids + 1, rows * columns, dtype=np.uint8)
    codebook = random.normal(size=centroids).astype(np.float32)
    matrix = packed(code, rows=rows, codebook_K=codebook, device=torch.device("cuda"))
    value = torch.from_numpy(np.concatenate([[0], codebook])).float().cuda()
    dense = value[torch.from_numpy(code).cuda().long()].view(rows, columns)
    assert torch.equal(unpacked(matrix), dense)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for batch in (1, 2, 8, 9, 16, 64):
            x = torch.randn(batch, columns, device="cuda").to(dtype)
            weight = dense.to(dtype).double()  # the tensor cores are given rounded weights
            bound = (x.double().abs() @ weight.abs().T) * (1e-5 if dtype == torch.float32 else torch.finfo(dtype).eps)
            assert bool(((times(matrix, x).double() - x.double() @ weight.T).abs() <= 1.5 * bound).all())


@gpu
@needs_gpu
def test_a_vector_at_an_odd_address_on_the_gpu() -> None:
    made, dense = on_gpu(40, 96, 15, 0.5)
    x = torch.randn(97, device="cuda").half()[1:][None]
    want = x.double() @ dense.T
    assert bool(((times(made[0], x).double() - want).abs() <= 4e-3 * (x.double().abs() @ dense.abs().T)).all())


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("batch", [2, 5, 8, SMALL_BATCH, SMALL_BATCH + 1, 64])
@pytest.mark.parametrize("centroids", [15, 200])
def test_a_batch_on_the_gpu(batch: int, centroids: int, dtype: torch.dtype) -> None:
    made, dense = on_gpu(70, 1000, centroids, 0.3)
    x = torch.randn(batch, 1000, device="cuda").to(dtype)
    want = x.double() @ dense.to(dtype).double().T  # the tensor cores are given rounded weights
    bound = (x.double().abs() @ dense.abs().T) * (1e-5 if dtype == torch.float32 else 2 * torch.finfo(dtype).eps)
    for matrix in made:
        assert bool(((times(matrix, x).double() - want).abs() <= bound).all())
