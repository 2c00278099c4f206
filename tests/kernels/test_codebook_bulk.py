"""The CUDA kernel for codes: which shapes it takes, and on a GPU the product of the reference."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.resources import files

import numpy as np
import pytest
import torch

from tightwire.kernels import codebook_bulk
from tightwire.kernels.codebook import bulk, times
from tightwire.kernels.codebook_bulk import MOST_VECTORS, SHAPES, Shape, product, shape_for, source
from tightwire.kernels.codebook_layout import PackedCodes, packed, unpacked

SHARED_NBYTES = 227 << 10  # of a Hopper GPU, which has 132 multiprocessors
LAUNCHES = 200
hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0), reason="needs a Hopper GPU"
)


@pytest.mark.parametrize(("rows", "high"), [(8192, 4), (4096, 2), (16384, 8), (8200, None), (64, None), (65536, None)])
def test_a_shape_fills_the_gpu_in_one_go_or_is_not_taken(rows: int, high: int | None) -> None:
    found = next((shape for shape in SHAPES if shape.holds(rows, 4096, 132)), None)
    assert (found and found.high) == high


def test_rows_that_cut_a_tile_are_not_taken_and_no_gpu_takes_none() -> None:
    assert Shape(4, 16, 6).holds(8192, 4096, 132)
    assert not Shape(4, 16, 6).holds(8192, 4096 + 512, 132)
    assert not Shape(4, 16, 6).holds(8192, 4096, 0)


def test_every_shape_fits_into_shared_memory() -> None:
    assert all(shape.shared_nbytes(4096, many) <= SHARED_NBYTES for shape in SHAPES for many in (1, MOST_VECTORS))
    table, one_x, sums, slots = 32768, 16384, 4 * 64 * 16, 6 * (16 * 1024 + 16)
    assert Shape(4, 16, 6).shared_nbytes(4096, 1) == table + one_x + sums + slots
    assert Shape(4, 16, 6).shared_nbytes(4096, 8) == table + 8 * sums + slots
    assert Shape(4, 16, 6).shared_nbytes(32768, 1) > SHARED_NBYTES  # a vector that is too long


def test_no_more_vectors_are_taken_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codebook_bulk, "_sizes", lambda _: (132, SHARED_NBYTES))
    one, two, nine = (torch.zeros(batch, 8192).half() for batch in (1, 2, 9))
    assert shape_for(8192, 4096, one) == SHAPES[0]
    assert shape_for(8192, 4096, two) == SHAPES[0]
    assert shape_for(8192, 4096, nine) is None


def test_the_source_is_part_of_the_package_and_leaves_the_sizes_open() -> None:
    text = files("tightwire.kernels").joinpath("codebook_bulk.cu").read_text(encoding="utf-8")
    whole = source(4096, Shape(4, 16, 6), 1, torch.bfloat16)
    defined = re.findall(r"^#define (\w+) (\d+)$", whole.removesuffix(text), re.MULTILINE)
    assert dict(defined) == {"ROW": "4096", "HIGH": "4", "WARPS": "16", "SLOTS": "6", "MANY": "1", "BRAIN": "1"}
    assert all(re.search(rf"\b{name}\b", text) for name, _ in defined)
    assert "#include" not in text  # NVRTC is given no headers


def test_on_a_cpu_the_reference_computes() -> None:
    made = packed(np.ones(64 * 64, np.uint8), rows=64, codebook_K=np.ones(16, np.float32), device=torch.device("cpu"))
    assert bulk(made, torch.ones(1, 64).half()) is None
    assert torch.equal(times(made, torch.ones(1, 64).half()), torch.full((1, 64), 64.0).half())


def test_the_words_are_new_at_first_and_after_a_change() -> None:
    made = packed(np.ones(64 * 64, np.uint8), rows=64, codebook_K=np.ones(16, np.float32), device=torch.device("cpu"))
    assert [codebook_bulk._unchanged(made) for _ in range(2)] == [False, True]
    made.word_DAIJ.zero_()
    assert not codebook_bulk._unchanged(made, recording=True)  # and what is only recorded is not remembered
    assert [codebook_bulk._unchanged(made) for _ in range(2)] == [False, True]
    assert not codebook_bulk._unchanged(replace(made, word_DAIJ=made.word_DAIJ.clone()))


@pytest.mark.parametrize("differing", [0, 3])
def test_differences_are_counted(differing: int) -> None:
    first = torch.ones(2, 64).half()
    again = torch.stack([first, first])
    again[1, 0, 5 : 5 + differing] = 3
    changed = again != first
    assert bool(changed.any()) == bool(differing)
    if differing:
        told = differences(again, first.expand_as(again), changed)
        assert told == "3 of 256 elements, in 1 vectors, rows [5, 6, 7] …, off by 2, at most 2"


@cache
def drawn(rows: int, columns: int, scale: float = 1.0) -> PackedCodes:
    random = np.random.default_rng(0)
    code = random.integers(1, 17, rows * columns, dtype=np.uint8)
    value = random.normal(size=16)
    codebook = np.sort(scale * (value - value.mean())).astype(np.float32)  # no mean: a chain of products stays bounded
    return packed(code, rows=rows, codebook_K=codebook, device=torch.device("cuda"))


def vectors(batch: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(batch, columns, generator=torch.Generator().manual_seed(batch)).to("cuda", dtype)


@pytest.mark.gpu
@hopper
@pytest.mark.parametrize("batch", [1, 2, 5, 8])
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [
        (8192, 8192, torch.float16), (8192, 8192, torch.bfloat16), (8192, 2048, torch.float16),
        (8192, 6144, torch.float16), (8192, 10240, torch.float16), (4096, 4096, torch.float16),
        (16384, 2048, torch.float16),
    ],
)  # fmt: skip
def test_the_product_is_that_of_the_reference_and_the_same_every_time(
    rows: int, columns: int, dtype: torch.dtype, batch: int
) -> None:
    matrix, x = drawn(rows, columns), vectors(batch, columns, dtype)
    shape = shape_for(rows, columns // 2, x)
    if shape is None:
        pytest.skip("this GPU takes other shapes")
    first, dense = made(product(matrix, x, shape=shape, dependent=False)), unpacked(matrix).to(dtype).double()
    want, bound = x.double() @ dense.T, x.double().abs() @ dense.abs().T
    again = torch.stack([made(product(matrix, x, shape=shape)) for _ in range(LAUNCHES)])
    wrong = ~((first.double() - want).abs() <= 1.5 * torch.finfo(dtype).eps * bound)
    assert not wrong.any(), f"beside the reference: {differences(first, want, wrong)}"
    changed = again != first  # a race shows here
    assert not changed.any(), f"beside the first launch: {differences(again, first.expand_as(again), changed)}"


def made(out: torch.Tensor | None) -> torch.Tensor:
    assert out is not None
    return out


def differences(got: torch.Tensor, want: torch.Tensor, where: torch.Tensor) -> str:
    off = (got.double() - want.double()).abs()[where]
    return (
        f"{len(off)} of {where.numel()} elements, in {int(where.flatten(0, -2).any(-1).sum())} vectors, "
        f"rows {where.nonzero()[:8, -1].tolist()} …, off by {float(off.median()):.4g}, at most {float(off.max()):.4g}"
    )


@pytest.mark.gpu
@hopper
def test_chained_products_wait_for_each_other() -> None:
    matrix, x = drawn(8192, 8192, 0.01), torch.randn(1, 8192, device="cuda").half()
    want = got = x
    for _ in range(20):
        got = times(matrix, got)
    for _ in range(20):
        torch.cuda.synchronize()
        want = times(matrix, want)
    assert torch.equal(got, want) and bool(want.isfinite().all()) and bool(want.any())


@pytest.mark.gpu
@hopper
@pytest.mark.parametrize(
    ("rows", "columns", "batch"),
    [(8193, 8192, 1), (8192, 8200, 1), (8193, 8200, 3), (8192, 2080, 1), (8192, 2048, 9)],
)
def test_other_shapes_are_left_to_the_other_kernels(rows: int, columns: int, batch: int) -> None:
    matrix, x = drawn(rows, columns), torch.randn(batch, columns, device="cuda").half()
    assert bulk(matrix, x) is None
    dense = unpacked(matrix).half().double()
    bound = 1.5e-3 * (x.double().abs() @ dense.abs().T)
    assert bool(((times(matrix, x).double() - x.double() @ dense.T).abs() <= bound).all())
