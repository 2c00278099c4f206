"""Packed codes: they decode to what was packed, and on a GPU every way of looking them up gives the same product."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_words import drawn
from tightwire.kernels.codebook import SMALL_BATCH, Codes, PackedCodes, listed, packed, tiles, times, unpacked, vector
from tightwire.kernels.compiled import compiled

CPU = torch.device("cpu")
gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@given(
    rows=st.integers(1, 9), columns=st.sampled_from([1, 31, 32, 33, 127, 128, 129, 600]),
    density=st.sampled_from([0.0, 0.5, 1.0]), centroids=st.sampled_from([1, 3, 15, 16, 17, 255]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_what_is_packed_or_listed_decodes_to_the_same_weights(
    rows: int, columns: int, density: float, centroids: int, seed: int
) -> None:
    code, codebook, dense = drawn(rows, columns, density, centroids, seed)
    for made in (
        packed(code, rows=rows, codebook_K=codebook, device=CPU),
        listed(code, rows=rows, codebook_K=codebook, device=CPU),
    ):
        assert np.array_equal(unpacked(made).double().numpy(), dense)
        x = torch.randn(2, columns)
        assert torch.equal(times(made, x), F.linear(x, torch.from_numpy(dense).float()))


def test_a_vector_of_another_size_is_refused() -> None:
    made = packed(np.ones(6, np.uint8), rows=2, codebook_K=np.ones(1, np.float32), device=CPU)
    with pytest.raises(ValueError, match="3 columns"):
        times(made, torch.zeros(1, 4))


def test_sixteen_centroids_fit_four_bits_only_where_nothing_is_pruned() -> None:
    full, some = np.arange(1, 33, dtype=np.uint8) % 16 + 1, np.arange(32, dtype=np.uint8) % 17
    codebook = np.linspace(-1, 1, 16, dtype=np.float32)
    assert packed(full, rows=1, codebook_K=codebook, device=CPU).bits == 4
    assert packed(some, rows=1, codebook_K=codebook, device=CPU).bits == 8


def test_the_layout_is_the_one_that_is_drawn() -> None:
    code = np.arange(32, dtype=np.uint8) % 16  # columns 0–7 lie in bits 0–7 of words 0–3, two to a word
    made = packed(code, rows=1, codebook_K=np.arange(1, 16, dtype=np.float32), device=CPU)
    word = made.word_RS[0, :4].numpy().view(np.uint32)
    assert [hex(w) for w in word] == ["0x98109810", "0xba32ba32", "0xdc54dc54", "0xfe76fe76"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_byte_of_codes_finds_its_two_values(dtype: torch.dtype) -> None:
    codebook = np.linspace(-2, 3, 15, dtype=np.float32)
    value = torch.from_numpy(np.concatenate([[0], codebook])).to(dtype)
    four = packed(np.arange(16, dtype=np.uint8), rows=1, codebook_K=codebook, device=CPU)
    table = (four.half_256 if dtype == torch.float16 else four.brain_256).view(dtype).view(256, 2)
    assert torch.equal(table, torch.stack([value.repeat(16), value.repeat_interleave(16)], 1))
    eight = packed(np.arange(256, dtype=np.uint8), rows=1, codebook_K=np.arange(255, dtype=np.float32), device=CPU)
    table = (eight.half_256 if dtype == torch.float16 else eight.brain_256).view(dtype).view(256, 2)
    assert torch.equal(table, eight.value_V.to(dtype)[:, None].expand(256, 2))


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
@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (33, 1000), (64, 4096), (100, 8191)])
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
def test_a_vector_at_an_odd_address_on_the_gpu() -> None:
    made, dense = on_gpu(40, 96, 15, 0.5)
    x = torch.randn(97, device="cuda").half()[1:][None]
    want = x.double() @ dense.T
    assert bool(((times(made[0], x).double() - want).abs() <= 4e-3 * (x.double().abs() @ dense.abs().T)).all())


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("batch", [2, 5, SMALL_BATCH, SMALL_BATCH + 1])
@pytest.mark.parametrize("centroids", [15, 200])
def test_a_batch_on_the_gpu(batch: int, centroids: int, dtype: torch.dtype) -> None:
    made, dense = on_gpu(70, 1000, centroids, 0.3)
    x = torch.randn(batch, 1000, device="cuda").to(dtype)
    want = x.double() @ dense.to(dtype).double().T  # the tensor cores are given rounded weights
    bound = (x.double().abs() @ dense.abs().T) * (1e-5 if dtype == torch.float32 else 2 * torch.finfo(dtype).eps)
    for matrix in made:
        assert bool(((times(matrix, x).double() - want).abs() <= bound).all())
