"""Products from words: every kernel against the dense product in double precision, and against the plain reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tightwire.kernels import plain_words, words
from tightwire.kernels.words import WIDTH, Stretches, slide, times

MATRICES = st.tuples(
    st.integers(1, 24),
    st.one_of(st.integers(1, 70), st.sampled_from([WIDTH - 1, WIDTH, WIDTH + 1, 2 * WIDTH + 5])),
    st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    st.sampled_from([1, 5, 32, 33, 300]),
    st.integers(0, 2**32 - 1),
)


def drawn(
    rows: int, columns: int, density: float, centroids: int, seed: int
) -> tuple[NDArray[np.uint16], NDArray[np.float32], NDArray[np.float64]]:
    """Codes, codebook, and the matrix they stand for."""
    random = np.random.default_rng(seed)
    codebook = np.sort(random.normal(size=centroids).astype(np.float32))
    kept = random.random(rows * columns) < density
    code = np.where(kept, random.integers(1, centroids + 1, rows * columns), 0)
    dense = np.concatenate([[0.0], codebook.astype(np.float64)])[code].reshape(rows, columns)
    return code.astype(np.uint8 if centroids <= 255 else np.uint16), codebook, dense


def assert_close(got: torch.Tensor, dense: NDArray[np.float64], x: NDArray[np.float64]) -> None:
    """Within what the order of additions can change: 1e-5 of the sum of magnitudes."""
    bound = 1e-5 * (np.abs(x) @ np.abs(dense).T) + 1e-12
    assert (np.abs(got.double().numpy() - x @ dense.T) <= bound).all()


@pytest.fixture(params=["as found", "no avx512"])
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    if request.param == "no avx512":
        monkeypatch.setattr(words, "_avx512", lambda: None)
    elif words._avx512() is None:
        pytest.skip("this processor has no AVX-512")


@given(matrix=MATRICES, batch=st.sampled_from([1, 2, 5, 17, 64, 70]))
@pytest.mark.usefixtures("processor")
def test_times_is_the_dense_product(matrix: tuple[int, int, float, int, int], batch: int) -> None:
    code, codebook, dense = drawn(*matrix)
    made = words.words(code, rows=matrix[0], codebook_K=codebook)
    x = np.random.default_rng(matrix[4]).normal(size=(batch, matrix[1])).astype(np.float32)
    assert made.nnz == np.count_nonzero(code)
    assert_close(times(made, torch.from_numpy(x)), dense, x.astype(np.float64))


@given(matrix=MATRICES)
def test_the_plain_reference_builds_the_same_words_and_multiplies_the_same(
    matrix: tuple[int, int, float, int, int],
) -> None:
    code, codebook, dense = drawn(*matrix)
    made = words.words(code, rows=matrix[0], codebook_K=codebook)
    found = words._avx512()  # decides to how many words rows are padded
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "compiled", lambda *_: None)
        patch.setattr(words, "_avx512", lambda: found)
        plain = words.words(code, rows=matrix[0], codebook_K=codebook)
        x = np.random.default_rng(1).normal(size=(3, matrix[1])).astype(np.float32)
        assert_close(times(plain, torch.from_numpy(x)), dense, x.astype(np.float64))
    for field in ("word_W", "begin_BR", "end_BR", "codebook_K"):
        assert np.array_equal(getattr(made, field), getattr(plain, field))


@given(matrix=MATRICES, lanes=st.sampled_from([16, 64, 80]), seed=st.integers(0, 99))
def test_stretches_may_begin_anywhere_and_overlap(
    matrix: tuple[int, int, float, int, int], lanes: int, seed: int
) -> None:
    code, codebook, dense = drawn(*matrix)
    made = words.words(code, rows=matrix[0], codebook_K=codebook)
    random = np.random.default_rng(seed)
    x = random.normal(size=lanes + 40).astype(np.float32)
    start_C = random.integers(0, 41, matrix[1])
    stretch_LC = np.stack([x[start : start + lanes] for start in start_C], axis=1).astype(np.float64)
    at = Stretches.of(made, start_C)
    assert_close(slide(made, torch.from_numpy(x), at=at, lanes=lanes).T, dense, stretch_LC)
    if matrix[1] * matrix[0] < 2000:
        assert_close(torch.from_numpy(plain_words.slide(made, x, start_C, lanes)).T, dense, stretch_LC)


def test_rows_of_groups_begin_at_their_own_columns() -> None:
    code = np.array([1, 0, 2, 1, 0, 2, 2, 1], np.uint8)  # four rows of two, in two groups
    codebook = np.array([-1.0, 3.0], np.float32)
    made = words.words(code, rows=4, codebook_K=codebook, shift_R=np.array([0, 0, 2, 2]), columns=4)
    y = times(made, torch.tensor([[1.0, 10.0, 100.0, 1000.0]]))
    assert y.tolist() == [[-1.0, 3 - 10.0, 3000.0, 300.0 - 1000.0]]


def test_threads_share_the_rows_without_changing_a_bit() -> None:
    pytest.importorskip("numba")
    code, codebook, _ = drawn(1000, 3000, 0.5, 31, 0)
    made = words.words(code, rows=1000, codebook_K=codebook)
    x = torch.randn(20, 3000)
    alone = times(made, x[:1]), times(made, x)
    torch.set_num_threads(2)
    try:
        together = times(made, x[:1]), times(made, x)
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_a_stretch_beyond_x_is_refused_before_a_kernel_reads_it() -> None:
    made = words.words(np.ones(4, np.uint8), rows=2, codebook_K=np.ones(1, np.float32))
    at = Stretches.of(made, np.array([0, 5]))
    with pytest.raises(ValueError, match="does not lie within 20"):
        slide(made, torch.zeros(20), at=at, lanes=16)
    with pytest.raises(ValueError, match="no multiple of 16"):
        slide(made, torch.zeros(20), at=at, lanes=8)
    with pytest.raises(ValueError, match="do not suit 2 columns"):
        Stretches.of(made, np.array([0, -5]))


def test_vectors_that_do_not_fit_are_refused_before_a_kernel_reads_them() -> None:
    made = words.words(np.ones(6, np.uint8), rows=2, codebook_K=np.ones(1, np.float32))
    for x in (torch.zeros(1, 2), torch.zeros(3), torch.zeros(1, 3, dtype=torch.float64)):
        with pytest.raises(ValueError, match="3 columns take float32"):
            times(made, x)


def test_a_matrix_without_rows_or_vectors_has_an_empty_product() -> None:
    made = words.words(np.ones(6, np.uint8), rows=2, codebook_K=np.ones(1, np.float32))
    assert times(made, torch.zeros(0, 3)).shape == (0, 2)
    none = words.words(np.zeros(0, np.uint8), rows=0, codebook_K=np.ones(1, np.float32), columns=3)
    assert times(none, torch.zeros(1, 3)).shape == (1, 0)
